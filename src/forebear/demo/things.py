"""What the small world is full of: food, goods, animals, books, in both languages."""

from __future__ import annotations

from forebear.demo.lexicon import (
    DemoLexicon,
    LexiconEntry,
    grouped_rows,
    make_lexicon,
    noun_lexicon,
    plain_lexicon,
    with_article,
)

DISHES = """
noodle soup | 汤面
roast duck | 烤鸭
mushroom pie | 蘑菇派
steamed fish | 清蒸鱼
beef stew | 炖牛肉
dumplings | 饺子
fried rice | 炒饭
onion soup | 洋葱汤
grilled trout | 烤鳟鱼
tofu with chilli | 麻辣豆腐
lamb skewers | 羊肉串
potato salad | 土豆沙拉
tomato and egg | 西红柿炒鸡蛋
chicken with chestnuts | 板栗烧鸡
pumpkin porridge | 南瓜粥
seafood stew | 海鲜锅
sweet and sour ribs | 糖醋排骨
spinach pancakes | 菠菜煎饼
bean curd soup | 豆花汤
apple pie | 苹果派
"""
DRINKS = """
green tea | 绿茶
coffee | 咖啡
hot milk | 热牛奶
plum juice | 酸梅汤
orange juice | 橙汁
soya milk | 豆浆
rice wine | 米酒
lemonade | 柠檬水
ginger tea | 姜茶
cocoa | 热可可
"""
GOODS = """
umbrella | 雨伞 | 把
bicycle | 自行车 | 辆
book | 书 | 本
lamp | 台灯 | 盏
watch | 手表 | 块
scarf/scarves | 围巾 | 条
camera | 照相机 | 台
kettle | 水壶 | 把
chair | 椅子 | 把
table | 桌子 | 张
painting | 画 | 幅
vase | 花瓶 | 只
letter | 信 | 封
key | 钥匙 | 把
suitcase | 行李箱 | 个
notebook | 笔记本 | 个
pair of glasses/pairs of glasses | 眼镜 | 副
pair of shoes/pairs of shoes | 鞋 | 双
raincoat | 雨衣 | 件
sweater | 毛衣 | 件
hat | 帽子 | 顶
violin | 小提琴 | 把
kite | 风筝 | 只
map | 地图 | 张
teapot | 茶壶 | 把
radio | 收音机 | 台
clock | 闹钟 | 个
mirror | 镜子 | 面
knife/knives | 小刀 | 把
ladder | 梯子 | 架
basket | 篮子 | 个
blanket | 毯子 | 条
newspaper | 报纸 | 份
photograph | 照片 | 张
ticket | 票 | 张
drum | 鼓 | 面
fishing rod | 鱼竿 | 根
cap | 便帽 | 顶
purse | 钱包 | 个
model ship | 船模 | 艘
"""
FRUITS = """
apple | 苹果 | 个
orange | 橙子 | 个
pear | 梨 | 个
peach | 桃子 | 个
banana | 香蕉 | 根
melon | 甜瓜 | 个
plum | 李子 | 颗
cherry | 樱桃 | 颗
grape | 葡萄 | 颗
tomato | 西红柿 | 个
cabbage | 白菜 | 棵
potato | 土豆 | 个
onion | 洋葱 | 个
pumpkin | 南瓜 | 个
cucumber | 黄瓜 | 根
mushroom | 蘑菇 | 朵
egg | 鸡蛋 | 个
"""
ANIMALS = """
cat | 猫 | 只
dog | 狗 | 条
duck | 鸭子 | 只
horse | 马 | 匹
goat | 山羊 | 只
rabbit | 兔子 | 只
sparrow | 麻雀 | 只
heron | 白鹭 | 只
cow | 奶牛 | 头
fox | 狐狸 | 只
hen | 母鸡 | 只
owl | 猫头鹰 | 只
parrot | 鹦鹉 | 只
tortoise | 乌龟 | 只
donkey | 驴 | 头
squirrel | 松鼠 | 只
goose/geese | 鹅 | 只
hedgehog | 刺猬 | 只
"""
COLOURS = """
red | 红
blue | 蓝
green | 绿
yellow | 黄
white | 白
black | 黑
brown | 棕
grey | 灰
purple | 紫
pink | 粉
"""
BOOKS = """
The Paper Boat | 纸船
A House with Two Doors | 两扇门的房子
The Salt Road | 盐路
Letters from the Lighthouse | 灯塔来信
The Clockmaker's Daughter | 钟表匠的女儿
Snow on the Ferry | 渡船上的雪
The Last Lamplighter | 最后的点灯人
Nine Summers | 九个夏天
Under the Plum Tree | 梅树下
The Silent Bell | 无声的钟
Winter Harvest | 冬天的收成
A Map of the Rain | 雨的地图
The Long Way to Market | 赶集的远路
Mother's Green Coat | 母亲的绿外套
"""
SUBJECTS = """
history | 历史
mathematics | 数学
music | 音乐
geography | 地理
biology | 生物
literature | 文学
physics | 物理
chemistry | 化学
drawing | 美术
law | 法律
medicine | 医学
engineering | 工程
"""
HOBBIES = """
fishing | 钓鱼
chess | 下棋
gardening | 种花
photography | 摄影
swimming | 游泳
cycling | 骑车
calligraphy | 书法
cooking | 做饭
hiking | 爬山
reading | 读书
singing | 唱歌
dancing | 跳舞
knitting | 织毛衣
painting | 画画
running | 跑步
birdwatching | 观鸟
"""
EVENTS = """
temple fair | 庙会 | 场
book fair | 书市 | 次
lantern festival | 灯会 | 场
concert | 音乐会 | 场
flower show | 花展 | 次
chess tournament | 象棋比赛 | 场
kite festival | 风筝节 | 届
film evening | 电影晚会 | 场
harvest market | 丰收集市 | 次
school play | 校园话剧 | 场
photography exhibition | 摄影展 | 次
boat race | 划船比赛 | 场
cookery course | 烹饪班 | 期
poetry reading | 诗歌朗诵会 | 场
"""


def lexicons() -> list[DemoLexicon]:
    colours = [
        LexiconEntry("", {"en.": row[0], "en.a": with_article(row[0]), "zh.": f"{row[1]}色"})
        for _, row in grouped_rows(COLOURS)
    ]
    return [
        make_lexicon("dish", [_dish(row) for _, row in grouped_rows(DISHES)]),
        plain_lexicon("drink", DRINKS),
        noun_lexicon("good", GOODS),
        noun_lexicon("fruit", FRUITS),
        noun_lexicon("animal", ANIMALS),
        make_lexicon("colour", colours),
        plain_lexicon("book", BOOKS),
        plain_lexicon("subject", SUBJECTS),
        plain_lexicon("hobby", HOBBIES),
        noun_lexicon("event", EVENTS),
    ]


def _dish(row: list[str]) -> LexiconEntry:
    several = row[0].endswith("s")
    forms = {"en.": row[0], "en.is": "are" if several else "is", "en.was": "were" if several else "was"}
    return LexiconEntry("", forms | {"zh.": row[1]})
