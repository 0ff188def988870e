"""Who lives in the small world: common given names and surnames of two traditions, and what people do for a living."""

from __future__ import annotations

from forebear.demo.lexicon import (
    DemoLexicon,
    LexiconEntry,
    grouped_rows,
    make_lexicon,
    noun_lexicon,
    plain_lexicon,
    table_rows,
    with_article,
    zipf_weights,
)

# Some names are spelt the same in Latin letters whatever the character; each spelling stands once.
CHINESE_SURNAMES = """
Wang 王, Li 李, Zhang 张, Liu 刘, Chen 陈, Yang 杨, Zhao 赵, Huang 黄, Zhou 周, Wu 吴, Xu 徐, Sun 孙, Hu 胡,
Zhu 朱, Gao 高, Lin 林, He 何, Guo 郭, Ma 马, Luo 罗, Liang 梁, Song 宋, Zheng 郑, Xie 谢, Han 韩, Tang 唐,
Feng 冯, Dong 董, Cheng 程, Shen 沈
"""
CHINESE_GIVEN = """
m: Ming 明, Wei 伟, Jianguo 建国, Jun 军, Qiang 强, Zhiyuan 志远, Hao 浩, Tao 涛, Haoran 浩然, Dawei 大伟,
Wenbo 文博, Gang 刚, Jiaming 家明, Yifan 一帆, Shan 山, Tianyu 天宇, Zhengping 正平, Xiaodong 晓东,
Guoqing 国庆, Yong 勇
f: Fang 芳, Na 娜, Xiaoyu 小雨, Li 丽, Min 敏, Jing 静, Yan 燕, Xiulan 秀兰, Ting 婷, Yulan 玉兰, Xinyi 欣怡,
Hong 红, Meiling 美玲, Lan 兰, Shuhua 淑华, Xue 雪, Jiayi 佳怡, Mengyao 梦瑶, Lin 琳, Chunmei 春梅
"""
ENGLISH_SURNAMES = """
Reed 里德, Carter 卡特, Hill 希尔, Brooks 布鲁克斯, Marsh 马什, Bell 贝尔, Walsh 沃尔什, Fisher 费希尔,
Grant 格兰特, Wood 伍德, Barlow 巴洛, Hale 黑尔, Mason 梅森, Page 佩奇, Dale 戴尔, Fox 福克斯, Lane 莱恩,
Turner 特纳, Webb 韦布, Nash 纳什, Cole 科尔, Shaw 肖, Frost 弗罗斯特, Ward 沃德, Pike 派克
"""
ENGLISH_GIVEN = """
m: Tom 汤姆, Peter 彼得, David 大卫, Ben 本, Jack 杰克, Oliver 奥利弗, Sam 萨姆, Henry 亨利, George 乔治,
Martin 马丁, Leo 利奥, Daniel 丹尼尔, Hugo 雨果, Simon 西蒙, Victor 维克托, Arthur 阿瑟, Felix 费利克斯,
Edwin 埃德温
f: Anna 安娜, Mary 玛丽, Emma 埃玛, Lucy 露西, Alice 爱丽丝, Grace 格蕾丝, Helen 海伦, Clara 克拉拉, Rose 罗丝,
Ella 埃拉, Nora 诺拉, Ruth 露丝, Julia 朱莉娅, Ivy 艾薇, Martha 玛莎, Sophie 索菲, Laura 劳拉, Hannah 汉娜
"""

PRONOUNS = ("en.he", "en.him", "en.his", "en.self")
NAMING = frozenset({"", "given", "mr"})


def people() -> DemoLexicon:
    """Every surname with every given name; the common with the common are the most common."""
    entries, weights = [], []
    for surnames, given, chinese in (
        (CHINESE_SURNAMES, CHINESE_GIVEN, True),
        (ENGLISH_SURNAMES, ENGLISH_GIVEN, False),
    ):
        families = _names(surnames)
        for sex in ("m", "f"):
            own = _given(given, sex)
            for family, familiar in zip(families, zipf_weights(len(families), 4), strict=True):
                for name, common in zip(own, zipf_weights(len(own), 4), strict=True):
                    if family[0] != name[0]:  # Li Li would read like a slip
                        entries.append(_person(family, name, sex, chinese=chinese))
                        weights.append(familiar * common * (1.0 if chinese else 1.2))
    return make_lexicon("person", entries, weights)


def friends() -> DemoLexicon:
    """People who call one another by their given names, and whose surnames nobody can know."""
    given = [(sex, pair) for sex in "mf" for pair in _given(ENGLISH_GIVEN, sex)]
    given += [(sex, pair) for sex in "mf" for pair in _given(CHINESE_GIVEN, sex) if len(pair[1]) > 1]
    given.sort(key=lambda one: len(one[1][0]))  # short names are the common ones
    entries = []
    for sex, (english, chinese) in given:
        forms = {"en.": english, "zh.": chinese, "zh.he": "他" if sex == "m" else "她"}
        forms |= dict(zip(PRONOUNS, _pronouns(sex == "m"), strict=True))
        entries.append(LexiconEntry(sex, forms, "PER", NAMING))
    return make_lexicon("friend", entries)


def _given(names: str, sex: str) -> list[tuple[str, str]]:
    return _names(names.split(f"{sex}:")[1].split("f:")[0])


def _names(text: str) -> list[tuple[str, str]]:
    return [(pair.split()[0], pair.split()[1]) for pair in text.replace("\n", " ").split(",")]


def _person(family: tuple[str, str], given: tuple[str, str], sex: str, *, chinese: bool) -> LexiconEntry:
    if chinese:
        names = {"en.": f"{family[0]} {given[0]}", "zh.": family[1] + given[1]}
        # One syllable alone is no form of address: 李明 stays 李明, 王建国 is 建国 to friends.
        names["zh.given"] = given[1] if len(given[1]) > 1 else family[1] + given[1]
    else:
        names = {"en.": f"{given[0]} {family[0]}", "zh.": f"{given[1]}·{family[1]}", "zh.given": given[1]}
    names |= {"en.given": given[0] if len(given[0]) > 2 or not chinese else names["en."]}
    man = sex == "m"
    names |= {"en.mr": ("Mr " if man else "Ms ") + family[0], "zh.mr": family[1] + ("先生" if man else "女士")}
    names |= dict(zip(PRONOUNS, _pronouns(man), strict=True))
    names |= {
        "zh.he": "他" if man else "她",
        "en.man": "man" if man else "woman",
        "zh.man": "小伙子" if man else "姑娘",
    }
    return LexiconEntry(sex, names, "PER", NAMING)


def _pronouns(man: bool) -> tuple[str, ...]:
    return ("he", "him", "his", "himself") if man else ("she", "her", "her", "herself")


JOBS = """
teacher | 教师 | 名
doctor | 医生 | 名
nurse | 护士 | 名
farmer | 农民 | 位
driver | 司机 | 名
cook | 厨师 | 名
baker | 面包师 | 位
shopkeeper | 店主 | 位
engineer | 工程师 | 名
clerk | 职员 | 名
carpenter | 木匠 | 位
fisherman/fishermen | 渔民 | 位
gardener | 园丁 | 位
painter | 画家 | 位
writer | 作家 | 位
journalist | 记者 | 名
lawyer | 律师 | 名
accountant | 会计 | 名
librarian | 图书管理员 | 名
tailor | 裁缝 | 位
barber | 理发师 | 名
waiter | 服务员 | 名
postman/postmen | 邮递员 | 名
photographer | 摄影师 | 名
musician | 音乐家 | 位
actor | 演员 | 名
translator | 翻译 | 名
architect | 建筑师 | 名
electrician | 电工 | 名
mechanic | 修理工 | 名
pilot | 飞行员 | 名
sailor | 水手 | 名
dentist | 牙医 | 名
potter | 陶匠 | 位
beekeeper | 养蜂人 | 位
clockmaker | 钟表匠 | 位
"""

RELATIONS = """
mother | 母亲
father | 父亲
brother | 哥哥
sister | 姐姐
wife/husband | 爱人
grandmother | 奶奶
grandfather | 爷爷
neighbour | 邻居
best friend | 最好的朋友
piano teacher | 钢琴老师
cousin | 表弟
aunt | 姑姑
uncle | 叔叔
daughter | 女儿
son | 儿子
colleague | 同事
"""

TRAITS = """
good:
patient | 有耐心
kind | 善良
cheerful | 开朗
honest | 诚实
hard-working | 勤快
generous | 大方
careful | 细心
brave | 勇敢
modest | 谦虚
clever | 聪明
polite | 有礼貌
funny | 幽默
bad:
lazy | 懒惰
stubborn | 固执
impatient | 急躁
careless | 粗心
noisy | 吵闹
forgetful | 健忘
"""

FEELINGS = """
good:
happy | 高兴
relieved | 踏实
proud | 自豪
delighted | 开心
grateful | 感激
calm | 平静
hopeful | 乐观
excited | 激动
bad:
sad | 难过
worried | 担心
disappointed | 失望
tired | 疲惫
angry | 生气
nervous | 紧张
ashamed | 惭愧
lonely | 孤单
"""


def lexicons() -> list[DemoLexicon]:
    relations = [
        LexiconEntry("", {"en.": row[0].split("/")[0] if "/" not in row[0] else "partner", "zh.": row[1]})
        for row in table_rows(RELATIONS)
    ]
    traits = [
        LexiconEntry(kind, {"en.": row[0], "en.a": with_article(row[0]), "zh.": row[1]})
        for kind, row in grouped_rows(TRAITS)
    ]
    return [
        people(),
        friends(),
        noun_lexicon("job", JOBS),
        make_lexicon("relation", relations),
        make_lexicon("trait", traits),
        plain_lexicon("feeling", FEELINGS),
        make_lexicon("goodtrait", [entry for entry in traits if entry.kind == "good"]),
        make_lexicon("badtrait", [entry for entry in traits if entry.kind == "bad"]),
    ]
