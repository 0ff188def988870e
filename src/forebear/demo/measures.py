"""What is counted and measured in the small world: days, seasons, weather, prices, years, in both languages."""

from __future__ import annotations

from forebear.demo.lexicon import DemoLexicon, LexiconEntry, grouped_rows, make_lexicon, plain_lexicon

DAYS = """
Monday | 星期一
Tuesday | 星期二
Wednesday | 星期三
Thursday | 星期四
Friday | 星期五
Saturday | 星期六
Sunday | 星期天
"""
PARTS = """
this morning | 今天早上
yesterday | 昨天
last night | 昨天晚上
last week | 上个星期
this afternoon | 今天下午
the day before yesterday | 前天
last month | 上个月
a few days ago | 前几天
last Sunday | 上个星期天
earlier today | 刚才
"""
SEASONS = """
spring | 春天
summer | 夏天
autumn | 秋天
winter | 冬天
"""
# Kind: noun | the sky today | Chinese noun | Chinese for the sky today
WEATHERS = """
sunny:
sunshine | sunny | 晴天 | 晴
a clear sky | clear and bright | 好天气 | 晴朗
cloudy:
cloud | cloudy | 阴天 | 多云
a grey sky | overcast | 阴沉的天气 | 阴
rain:
rain | rainy | 雨 | 有雨
a light drizzle | wet and drizzly | 毛毛雨 | 有毛毛雨
showers | showery | 阵雨 | 有阵雨
storm:
a thunderstorm | stormy | 雷阵雨 | 有雷阵雨
a violent storm | wild and stormy | 暴风雨 | 有暴风雨
snow:
snow | snowy | 雪 | 有雪
heavy snow | bitterly cold and snowy | 大雪 | 有大雪
fog:
fog | foggy | 雾 | 有雾
thick mist | misty | 大雾 | 有大雾
"""
# Degrees Celsius by kind of weather: what is likely there.
DEGREES = {"warm": range(22, 39), "mild": range(9, 24), "cold": range(-12, 5)}


def lexicons() -> list[DemoLexicon]:
    return [
        plain_lexicon("day", DAYS),
        plain_lexicon("when", PARTS),
        plain_lexicon("season", SEASONS),
        make_lexicon("weather", [_weather(kind, row) for kind, row in grouped_rows(WEATHERS)]),
        *(
            make_lexicon(name, [_degrees(name, degrees) for degrees in span], [1.0] * len(span))
            for name, span in DEGREES.items()
        ),
        *numbers(),
    ]


def _weather(kind: str, row: list[str]) -> LexiconEntry:
    noun, sky, chinese, chinese_sky = row
    return LexiconEntry(kind, {"en.": noun, "en.sky": sky, "zh.": chinese, "zh.sky": chinese_sky})


def _degrees(kind: str, degrees: int) -> LexiconEntry:
    forms = {}
    for name, value in (("", degrees), *((f"less{fall}", degrees - fall) for fall in (5, 6, 7, 8, 9))):
        forms[f"en.{name}"] = f"{value} degrees" if value >= 0 else f"minus {-value} degrees"
        forms[f"zh.{name}"] = f" {value} 摄氏度" if value >= 0 else f"零下 {-value} 摄氏度"
    return LexiconEntry(kind, forms)


ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve".split()
CHINESE = "零一二三四五六七八九十"


def chinese_number(number: int) -> str:
    """Up to 99, as it is spoken."""
    tens, ones = divmod(number, 10)
    ten = ("" if tens == 1 else CHINESE[tens]) + "十" if tens else ""
    return ten + (CHINESE[ones] if ones or not tens else "")


def counted(number: int) -> str:
    """Before a measure word 2 is 两."""
    return "两" if number == 2 else chinese_number(number)


def numbers() -> list[DemoLexicon]:
    def entry(number: int) -> LexiconEntry:
        english = ENGLISH[number] if number < len(ENGLISH) else str(number)
        return LexiconEntry(
            "", {"en.": english, "en.digits": str(number), "zh.": counted(number), "zh.digits": str(number)}
        )

    few, many = [entry(number) for number in range(2, 10)], [entry(number) for number in range(11, 80)]
    years = [LexiconEntry("", {"en.": str(year), "zh.": str(year)}) for year in range(1931, 2000)]
    hours = [LexiconEntry("", {"en.": ENGLISH[hour], "zh.": counted(hour)}) for hour in range(1, 13)]
    prices = [
        LexiconEntry("", {"en.": str(price), "zh.": str(price)}) for price in (*range(8, 60, 2), *range(60, 200, 10))
    ]
    goals = [LexiconEntry("", {"en.": ENGLISH[goal], "zh.": chinese_number(goal)}) for goal in range(2, 7)]
    return [
        make_lexicon("few", few),
        make_lexicon("many", many, [1.0] * len(many)),
        make_lexicon("year", years, [1.0] * len(years)),
        make_lexicon("hour", hours),
        make_lexicon("price", prices),
        make_lexicon("goals", goals),
    ]
