"""Words of two meanings, and sentences in which each is meant, told of a person who is known as P."""

from __future__ import annotations

from functools import cache

from forebear.demo.lexicon import LANGUAGES

# word: sense, then its sentences.
ENGLISH = """
bank: money
    <P.given> opened an account at the bank.
    the bank lent <P.given> [a small sum|enough to buy the house|the money for a boat].
    there was a long queue at the bank, and <P.given> [waited patiently|came back later].
    <P.given> works at the bank and [counts notes all day|knows every customer].
    the bank closes at <hour>, so <P.given> has to hurry.
bank: river
    <P.given> sat on the bank and [watched the boats|dipped a foot in the water].
    the river had burst its bank, and <P.given> [could not cross|went back].
    willows grow along the bank, where <P.given> goes fishing.
    <P.given> pulled the boat up on the bank[ and tied it to a tree|].
    ducks were sleeping on the muddy bank below the bridge.
bat: animal
    a bat flew out of the tower when <P.given> opened the door.
    <P.given> says that a bat [sleeps upside down|hears better than it sees].
    at dusk a bat was hunting moths above the pond.
    the children were afraid of the bat in the attic.
bat: sport
    <P.given> swung the bat and missed the ball.
    the bat broke [in two|with a crack] in the last game.
    for <P.his> birthday <P.given> got a new bat and a ball.
    <P.given> rubbed the bat with oil before the match.
light: lamp
    <P.given> switched off the light and went to bed.
    there was still light in the window of <P.his> <relation>.
    the light of the candle [fell on the table|was too weak to read by].
    <P.given> needs more light to read.
light: weight
    the box was so light that <P.given> could lift it with one hand.
    <P.given> packed a light bag for the journey.
    for a boat so large it is surprisingly light.
    the new tent is light and [strong|easy to carry].
spring: season
    in spring <P.given> plants <fruit.s> in the garden.
    spring came late, and the trees were still bare.
    <P.given> looks forward to the first warm days of spring.
    every spring the swallows come back to the barn.
spring: water
    <P.given> drank from the spring at the foot of the hill.
    the water of the spring is cold and clear.
    a spring rises between the rocks behind the house.
    <P.given> filled <P.his> bottle at the spring.
match: game
    the match ended in a draw, and <P.given> went home disappointed.
    <P.given> has a ticket for the match on <day>.
    after the match the players shook hands.
    it rained so hard that the match was stopped.
match: fire
    <P.given> struck a match and lit the stove.
    the last match went out in the wind.
    with a single match <P.given> [lit the fire|burnt the old letters].
    there was not one dry match left in the box.
bark: dog
    the bark of the dog woke <P.given>.
    one loud bark, and the thief ran away.
    <P.given> knows the bark of every dog in the street.
    from behind the gate came a bark and then a growl.
bark: tree
    <P.given> cut <P.his> name into the bark of the oak.
    the bark of the birch is white and thin.
    beetles live under the bark of the old pine.
    <P.given> made a small boat out of bark.
"""

CHINESE = """
苹果: 水果
    <P.given>把苹果洗干净，切成了几块。
    树上的苹果红了，<P.given>摘了满满一篮。
    <P.given>每天早上都要吃一个苹果。
    这种苹果[又脆又甜|有点儿酸]，<P.given>一口气吃了两个。
苹果: 公司
    苹果发布了新手机，<P.given>[想换一部|觉得太贵]。
    <P.given>在苹果做[工程师|设计师]，常常加班。
    苹果的股票又涨了，<P.given>后悔没买。
    <P.given>的电脑是苹果的，用了[五|六|八]年还很快。
行: 行列
    <P.given>在纸上只写了一行字。
    老师让<P.given>把第三行再念一遍。
    田里的白菜种得一行一行的，<P.given>看了很满意。
    诗的最后一行<P.given>怎么也想不起来。
行: 可以
    “行，就这么办吧。”<P.given>说。
    <P.given>问明天去行不行，对方点了点头。
    这样做不行，<P.given>得再想想办法。
    只要价钱合适，<P.given>觉得哪一家都行。
花: 植物
    院子里的花开了，<P.given>高兴得不得了。
    <P.given>给花浇了水，又搬到窗台上。
    春天一到，满山都是花。
    <P.given>买了一束花送给<relation>。
花: 用掉
    <P.given>花了<few>天才把活儿干完。
    这个月的工资，<P.given>不到一个星期就花光了。
    为了修房子，<P.given>花了不少钱。
    <P.given>舍不得花时间排队。
杜鹃: 鸟
    林子里的杜鹃叫了一整夜，<P.given>没睡好。
    一只杜鹃从<P.given>头上飞过。
    <P.given>听见杜鹃的叫声，就知道该播种了。
    杜鹃把蛋下在别的鸟的窝里。
杜鹃: 花
    山坡上的杜鹃开得火红一片。
    <P.given>在阳台上种了一盆杜鹃。
    这盆杜鹃喜欢阴凉，<P.given>不敢多晒。
    <P.given>折了一枝杜鹃插在瓶子里。
意思: 含义
    <P.given>不明白这句话是什么意思。
    老师解释了半天，<P.given>才懂了那个词的意思。
    对方的意思很清楚，<P.given>只好答应了。
    这两个字意思差不多，<P.given>常常用错。
意思: 趣味
    这本书很有意思，<P.given>一口气读完了。
    <P.given>觉得一个人看电影没意思。
    昨天的晚会真有意思，<P.given>笑得肚子疼。
    下棋越下越有意思，<P.given>忘了吃饭。
黄牛: 动物
    <P.given>家的黄牛正在河边吃草。
    那头黄牛拉着车，慢慢地走过石桥。
    <P.given>小时候放过黄牛。
    老黄牛干了一辈子活儿，<P.given>舍不得卖。
黄牛: 票贩
    票早就卖光了，<P.given>只好找黄牛买。
    车站门口的黄牛拦住<P.given>，问要不要票。
    <P.given>被黄牛骗了，票是假的。
    黄牛把票价抬高了一倍，<P.given>气得转身就走。
火: 燃烧
    炉子里的火快灭了，<P.given>又添了几块柴。
    <P.given>用一根火柴点着了火。
    厨房着了火，幸好<P.given>发现得早。
    大家围着火坐成一圈，听<P.given>讲故事。
火: 红火
    这首歌最近特别火，<P.given>走到哪儿都能听见。
    <P.given>开的小店火了，门口天天排队。
    那部电影火得不得了，<P.given>买不到票。
    <P.given>没想到自己的照片会这么火。
"""


@cache
def sense_sentences(language: str) -> dict[str, dict[str, list[str]]]:
    """Word → sense → sentences."""
    found: dict[str, dict[str, list[str]]] = {}
    here: list[str] = []
    for line in (ENGLISH if language == "en" else CHINESE).strip().splitlines():
        if line.startswith(" "):
            here.append(line.strip())
        else:
            word, sense = line.split(": ")
            here = found.setdefault(word, {}).setdefault(sense, [])
    return found


def rules(language: str) -> str:
    """The sentences as rules `sense.WORD.SENSE`, and `scene.sense`, which stays with one of them."""
    assert language in LANGUAGES
    written, scenes = [], ["scene.sense"]
    for word, meanings in sense_sentences(language).items():
        for sense, sentences in meanings.items():
            written += [f"sense.{word}.{sense}", *(f"    {sentence}" for sentence in sentences)]
            scenes += [f"    <sense.{word}.{sense}*{count}>" for count in (2, 3)]
    return "\n".join([*written, *scenes])
