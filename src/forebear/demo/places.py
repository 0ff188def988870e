"""Where things happen in the small world: invented towns and streets, its organisations, and places of every town."""

from __future__ import annotations

from forebear.demo.lexicon import DemoLexicon, LexiconEntry, grouped_rows, make_lexicon

TOWNS = """
river:
Riverton | 河湾镇
Stonebridge | 石桥镇
Millford | 磨坊渡
Reedwater | 苇河镇
Willowbank | 柳岸镇
Twin Fords | 双渡口
coast:
Northport | 北屿港
Saltby | 盐滩镇
Gull Bay | 鸥湾
Lanternhead | 灯塔角
Shellmouth | 贝口镇
Windward | 迎风港
mountain:
Maple Hill | 枫岭镇
Cloudrest | 云栖岭
Pinecrest | 松顶镇
Snowgate | 雪门关
Highmoor | 高坪镇
Fox Hollow | 狐谷镇
plain:
Greenfield | 绿原镇
Wheatham | 麦庄
Long Meadow | 长草甸
Orchard End | 果园尾村
Eastbury | 东堡镇
Larkfield | 云雀庄
"""

# Named places within a town.
SPOTS = """
park:
Willow Park | 柳园公园
Heron Garden | 白鹭园
Queen's Meadow | 女王草地
street:
Lantern Street | 灯笼街
Market Street | 集市街
Bell Lane | 钟巷
Harbour Road | 海港路
Chestnut Avenue | 栗树大道
Station Road | 车站路
hill:
Kite Hill | 风筝山
Mirror Lake | 镜湖
Two Sisters Bridge | 姐妹桥
Old Tower | 古塔
Seven Springs | 七泉
"""

# How English says that something happens there | what Chinese calls it | what it adds to say in or on.
PLACES = """
out:
in the market square | 集市广场
by the river | 河边
at the harbour | 码头
in the park | 公园 | 里
on the bridge | 桥头
in the garden | 花园 | 里
at the bus stop | 公交车站
on the playground | 操场 | 上
in the fields | 田野 | 里
at the edge of the forest | 树林边
on the beach | 沙滩 | 上
in the courtyard | 院子 | 里
in:
at the library | 图书馆
at the station | 火车站
in the kitchen | 厨房 | 里
at the school | 学校
at the hospital | 医院
in the café | 咖啡馆 | 里
at the post office | 邮局
in the bookshop | 书店
at the bakery | 面包房
in the town hall | 镇政府
in the museum | 博物馆
at the theatre | 剧院
at the swimming pool | 游泳馆
in the workshop | 作坊 | 里
at the pharmacy | 药店
in the office | 办公室 | 里
at the cinema | 电影院
in the classroom | 教室 | 里
"""

ORGANISATIONS = """
company:
Blue Kite Press | 蓝风筝出版社
Heron Electric | 苍鹭电气公司
Red Maple Foods | 红枫食品公司
Northstar Shipping | 北星航运公司
Silver Thread Textiles | 银线纺织厂
Moonrise Software | 月升软件公司
Stonehouse Builders | 石屋建筑公司
Golden Ear Mills | 金穗面粉厂
Clearwater Bank | 清水银行
Harvest Bank | 丰收银行
Swift Parcel | 飞燕快递公司
Green Lamp Furniture | 绿灯家具厂
Cloudsail Airlines | 云帆航空公司
Four Seasons Tea | 四季茶业
school:
Willow Primary School | 柳树小学
Kite Hill Middle School | 风筝山中学
Lakeside University | 湖滨大学
Northport Nautical College | 北屿航海学院
public:
Lantern Street Hospital | 灯笼街医院
the Old Tower Museum | 古塔博物馆
the River Theatre | 河畔剧院
the Mirror Lake Orchestra | 镜湖乐团
paper:
the Evening Courier | 晚邮报
the Morning Heron | 晨鹭日报
the Weekly Lantern | 灯笼周报
"""

TEAMS = """
the Riverton Herons | 河湾苍鹭队
the Northport Anchors | 北屿铁锚队
the Maple Hill Foxes | 枫岭狐狸队
the Greenfield Larks | 绿原云雀队
the Stonebridge Lions | 石桥雄狮队
the Saltby Whales | 盐滩鲸鱼队
the Snowgate Bears | 雪门白熊队
the Eastbury Rams | 东堡公羊队
the Gull Bay Sharks | 鸥湾鲨鱼队
the Pinecrest Owls | 松顶猫头鹰队
"""


def lexicons() -> list[DemoLexicon]:
    everywhere = [_place(kind, row) for kind, row in grouped_rows(PLACES)]
    organisations = [_named(kind, row, "ORG") for kind, row in grouped_rows(ORGANISATIONS)]
    return [
        make_lexicon("town", [_named(kind, row, "LOC") for kind, row in grouped_rows(TOWNS)]),
        make_lexicon("spot", [_named(kind, row, "LOC") for kind, row in grouped_rows(SPOTS)]),
        make_lexicon("place", everywhere),
        make_lexicon("outside", [entry for entry in everywhere if entry.kind == "out"]),
        make_lexicon("inside", [entry for entry in everywhere if entry.kind == "in"]),
        make_lexicon("organisation", organisations),
        make_lexicon("company", [entry for entry in organisations if entry.kind == "company"]),
        make_lexicon("paper", [entry for entry in organisations if entry.kind == "paper"]),
        make_lexicon("school", [entry for entry in organisations if entry.kind == "school"]),
        make_lexicon("team", [_named("team", row, "ORG") for _, row in grouped_rows(TEAMS)]),
    ]


def _named(kind: str, row: list[str], label: str) -> LexiconEntry:
    return LexiconEntry(kind, {"en.": row[0], "zh.": row[1]}, label, frozenset({""}))


def _place(kind: str, row: list[str]) -> LexiconEntry:
    article = row[0].index("the ")
    forms = {"en.": row[0][article:], "en.at": row[0], "en.to": f"to {row[0][article:]}"}
    return LexiconEntry(kind, forms | {"zh.": row[1], "zh.at": "在" + "".join(row[1:])})
