"""What people of the small world do, each deed in the forms that a sentence of either language may need."""

from __future__ import annotations

from forebear.demo.lexicon import DemoLexicon, action_lexicon, make_lexicon

DOINGS = """
calm:
read an old novel | 读 一本旧小说
write a long letter | 写 一封长信
drink a cup of tea | 喝 一杯茶
water the flowers | 浇 花
feed the ducks | 喂 鸭子
draw the boats | 画 船
listen to the radio | 听 广播
play a game of chess | 下 一盘棋
take a short nap | 睡 一个午觉
chat with the neighbours | 跟邻居聊 天
count the stars | 数 星星
knit a pair of gloves | 织 一双手套
sing an old song | 唱 一首老歌
hum a tune | 哼 小曲
busy:
repair the bicycle | 修 自行车
paint the fence | 刷 篱笆
sweep the yard | 扫 院子
bake a loaf of bread | 烤 一个面包
chop firewood | 劈 柴
clean the windows | 擦 窗户
carry the boxes upstairs | 把箱子搬上 楼
plant a row of cabbages | 种 一排白菜
mend the roof | 补 屋顶
cook a big pot of soup | 煮 一大锅汤
wash the dishes | 洗 碗
pack the suitcase | 收拾 行李
sew on a button | 缝 扣子
build a shelf | 做 一个书架
dig a well | 挖 一口井
pick a basket of plums | 摘 一篮李子
learn a new song | 学 一首新歌
prepare the lesson | 备 课
copy out a poem | 抄 一首诗
sell the last melons | 卖 最后几个甜瓜
"""

# Something that turned out well or badly, told of a person who is known.
LUCK = """
good:
win the first prize | 得 一等奖
find the lost key | 找到 丢失的钥匙
pass the exam | 通过 考试
get a new job | 找到 一份新工作
catch a very big fish | 钓到 一条大鱼
meet an old friend | 遇到 一位老朋友
finish the book at last | 终于写完 那本书
receive a parcel from home | 收到 家里寄来的包裹
learn to swim at last | 终于学会 游泳
sell the first painting | 卖出 第一幅画
find an old love letter | 找到 一封旧情书
make peace with a neighbour | 跟邻居和好
repair the old clock | 修好 那座老钟
bad:
miss the last train | 错过 末班火车
lose the house key | 丢 家门钥匙
break a favourite cup | 打碎 心爱的杯子
fail the driving test | 考砸 驾照考试
catch a bad cold | 得 重感冒
forget an important meeting | 忘 一个重要的会
burn the dinner | 烧糊 晚饭
quarrel with a good friend | 跟好朋友吵 架
forget a birthday | 忘 一个人的生日
lose a lot of money | 亏 一大笔钱
break an arm | 摔断 胳膊
get lost in the forest | 在树林里迷 路
tear a good coat | 撕破 一件好大衣
upset the soup | 打翻 一锅汤
"""


def lexicons() -> list[DemoLexicon]:
    doing, luck = action_lexicon("doing", DOINGS), action_lexicon("luck", LUCK)
    return [
        doing,
        luck,
        make_lexicon("fortune", [entry for entry in luck.entries if entry.kind == "good"]),
        make_lexicon("misfortune", [entry for entry in luck.entries if entry.kind == "bad"]),
        make_lexicon("calm", [entry for entry in doing.entries if entry.kind == "calm"]),
        make_lexicon("busy", [entry for entry in doing.entries if entry.kind == "busy"]),
    ]
