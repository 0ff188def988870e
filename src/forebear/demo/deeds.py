"""Verbs and what they are done to: the part of the small world that sentences are freely made of."""

from __future__ import annotations

from forebear.demo.lexicon import DemoLexicon, LexiconEntry, action_lexicon, grouped_rows, make_lexicon, with_article

# What one can mean to do with a thing ...
HANDLING = """
buy | 买
sell | 卖掉
borrow | 借
order | 订
draw | 画
choose | 挑
hide | 藏起
wrap | 包好
keep | 留下
pack | 收好
admire | 欣赏
photograph | 拍
unwrap | 拆开
examine | 检查
polish | 擦亮
repair | 修好
collect | 取回
fetch | 拿来
measure | 量
paint | 漆
"""
# ... and what only happens.
CHANCING = """
find | 找到
lose | 弄丢
receive | 收到
drop | 摔坏
notice | 发现
inherit | 继承
win | 赢得
overlook | 漏掉
"""
MEETING = """
visit | 拜访
help | 帮
thank | 感谢
greet | 问候
invite | 邀请
scold | 批评
comfort | 安慰
praise | 称赞
follow | 跟踪
interview | 采访
avoid | 躲开
persuade | 说服
photograph | 拍
accompany | 陪
replace | 代替
warn | 提醒
draw | 画
advise | 指点
"""
ENCOUNTERING = """
meet | 遇见
see | 看见
recognise | 认出
remember | 想起
surprise | 吓到
overtake | 追上
disappoint | 辜负
"""
EATING = """
eat | 吃
cook | 做
order | 点
try | 尝
recommend | 推荐
share | 分
reheat | 热
prepare | 准备
"""
DRINKING = """
drink | 喝
pour | 倒
order | 点
offer | 端上
"""
TENDING = """
feed | 喂
chase | 追
raise | 养
buy | 买
stroke | 抚摸
catch | 捉
sell | 卖
photograph | 拍
rescue | 救
draw | 画
watch | 看
"""
MOVING = """
walk | 走到
go | 去
run | 跑到
cycle | 骑车到
hurry | 赶到
drive | 开车到
return | 回到
"""
STUDYING = """
study | 学
teach | 教
revise | 复习
discuss | 讨论
explain | 讲
"""
PURSUING = """
practise | 练习
teach | 教
abandon | 放弃
recommend | 推荐
"""
HARMING = """
break | 弄坏
lose | 弄丢
steal | 偷走
borrow | 借走
sell | 卖掉
find | 找到
hide | 藏起来
repair | 修好
clean | 洗干净
forget | 忘在家里
"""
SPOILING = """
break | 弄坏
lose | 弄丢
scratch | 刮花
soak | 弄湿
soil | 弄脏
bury | 埋掉
"""
QUALITIES = """
old | 破旧
new | 崭新
beautiful | 漂亮
cheap | 便宜
heavy | 沉重
strange | 奇怪
expensive | 昂贵
simple | 普通
light | 轻便
precious | 珍贵
strong | 结实
dusty | 落满灰尘
ugly | 难看
shiny | 闪亮
elegant | 精致
antique | 古老
rare | 罕见
tiny | 小巧
huge | 巨大
worthless | 不值钱
old-fashioned | 过时
handmade | 手工做
unusual | 少见
useful | 实用
"""
NATURES = """
young | 年轻
old | 上了年纪
friendly | 和气
tall | 高个子
shy | 害羞
famous | 有名
retired | 退了休
busy | 忙碌
thin | 瘦瘦
bearded | 留胡子
curious | 好奇
unlucky | 倒霉
elegant | 优雅
sleepy | 没睡醒
talkative | 爱说话
barefoot | 光着脚
silent | 沉默
cheerful | 快活
absent-minded | 心不在焉
proud | 骄傲
suspicious | 多疑
gentle | 温和
"""
MANNERS = """
quietly | 悄悄
quickly | 匆匆
secretly | 偷偷
carefully | 小心
happily | 高兴
slowly | 慢慢
reluctantly | 不情愿
proudly | 得意
eagerly | 急切
hesitantly | 犹豫
cheerfully | 乐呵呵
nervously | 不安
patiently | 耐心
thoughtfully | 若有所思
clumsily | 笨手笨脚
"""
REASONS = """
it was raining | 下雨了
there was nothing else to do | 没有别的事可做
the bus was late | 公交车晚点了
time was short | 时间不多了
it was somebody's birthday | 有人过生日
the shops were closed | 商店都关了门
the doctor had advised it | 医生这么说过
it was too hot to sleep | 天太热，睡不着
a letter had come | 来了一封信
the children insisted | 孩子们非要不可
visitors had come | 来了客人
money was short | 手头紧
there was a power cut | 停电了
the music was too loud | 音乐太吵
the train had already left | 火车已经开走了
it was a holiday | 那天放假
"""


def lexicons() -> list[DemoLexicon]:
    verbs = {
        "handle": HANDLING, "chance": CHANCING, "meet": MEETING, "encounter": ENCOUNTERING, "eat": EATING,
        "sip": DRINKING, "tend": TENDING, "move": MOVING, "study": STUDYING, "pursue": PURSUING, "harm": HARMING,
        "spoil": SPOILING,
    }  # fmt: skip
    words = {"quality": QUALITIES, "nature": NATURES, "manner": MANNERS, "reason": REASONS}
    return [
        *(action_lexicon(name, table) for name, table in verbs.items()),
        *(make_lexicon(name, [_word(kind, row) for kind, row in grouped_rows(table)]) for name, table in words.items()),
    ]


def _word(kind: str, row: list[str]) -> LexiconEntry:
    return LexiconEntry(kind, {"en.": row[0], "en.a": with_article(row[0]), "zh.": row[1]})
