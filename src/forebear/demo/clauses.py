"""Sentences freely made of verbs and things, in both languages: what happened, to whom, how, why, and who said so.

A predicate is written once and made into a rule for each tense, since in both languages only its verb changes.
"""

from __future__ import annotations

ENGLISH_PREDICATE = """
deed%
    3* <handle%> <thing>[ <place.at>|]
    2* <meet%> <somebody>[ <place.at>|]
    <eat%> <meal>[ with <somebody>|]
    <sip%> a [cup|glass] of <drink>
    <tend%> <beast>[ <outside.at>|]
    <move%> [<place.to>|to <spot>|to <organisation>][ with <somebody>|]
    <study%> <subject>
    <pursue%> <hobby>
    2* <doing%>[ <manner>|]
"""
ENGLISH_CHANCE = """
    <chance%> <thing>[ <place.at>|]
    <encounter%> <somebody>[ <place.at>|]
"""
CHINESE_PREDICATE = """
deed%
    3* [<place.at>|]<handle%><thing>
    2* [<place.at>|]<meet%><somebody>
    [跟<somebody>一起|]<eat%><meal>
    <sip%>[一杯|两杯]<drink>
    [<outside.at>|]<tend%><beast>
    [跟<somebody>一起|]<move%>[<place>|<spot>|<organisation>]
    <study%><subject>
    <pursue%><hobby>
    2* [<manner>地|]<doing%>
"""
CHINESE_CHANCE = """
    [<place.at>|]<chance%><thing>
    [<place.at>|]<encounter%><somebody>
"""

ENGLISH = """
thing
    3* <good.a>
    2* <quality.a> <good>
    <colour.a> <good>
    <quality.a> <colour> <good>
    <few> <good.s>
    <few> <quality> <good.s>
    the <good> that <person> had <handle.done>
    <person>'s <good>
    [a basket|a bag|a box] of <fruit.s>
    a copy of <book>[ by <person>|]
somebody
    4* <person>
    2* <job.a>
    <nature.a> <job>
    <job.a> from <town>
    the new <job> [at|of] <organisation>
    the <job> <person>
    <person>'s <relation>
    <nature.a> <job> [from|in] <town>
meal
    2* <dish>
    a [plate|portion] of <dish>
    <dish> and <dish>
    the last of the <dish>
beast
    2* <animal.a>
    <colour.a> <animal>
    <few> <animal.s>
    <person>'s <animal>
    the <animal> of <job.a>
happening
    4* <happening.time><somebody> <deed.past>.
    <few> <job.s> <deed.past>.
    2* <happening.time><somebody> <manner> <handle.past> <thing>.
    <happening.time><somebody> <deed.past> because <reason>.
    while <somebody> was <deed.ing>, <somebody> <deed.past>.
    after <deed.ing>, <somebody> <deed.past>.
    <somebody>, who had [just|never|already|often] <deed.done>, <deed.past>.
    <somebody> [says|thinks|believes|has heard|denies] that <somebody> <deed.past> <when>.
    “I have never <deed.done>,” said <somebody>.
    it was <somebody> who <deed.past>, not <person>.
    <person>'s <good> was <harm.done> by <somebody>[ <when>|].
    although <reason>, <somebody> <deed.past>.
    <somebody> wanted to <deed>, but <reason>.
    nobody knew why <somebody> had <deed.done>.
    as soon as <somebody> had <deed.done>, <somebody> <deed.past>.
    [first|one day] <somebody> <deed.past>, then <somebody> <deed.past>[, and finally <somebody> <deed.past>|].
    when <reason>, <somebody> [always|usually|never] <deed.past>.
    <somebody> and <person> both <deed.past>.
    it is said that <somebody> once <deed.past>.
    <somebody> promised to <deed>[, but never did|].
    not only <job.a> but also <somebody> <deed.past>.
happening.time
    4* -
    <when>,_
    on <day>,_
    [in the morning|in the evening|around noon|late at night],_
    one <season> day,_
    earlier this year,_
own
    3* <P.he> <deed.past>.
    <own.time>, <P.he> <deed.past>[ because <reason>|].
    <P.he> <manner> <handle.past> <thing>.
    while <P.he> was <deed.ing>, <somebody> <deed.past>.
    <P.he> wanted to <deed>, but <reason>.
    when <somebody> <deed.past>, <P.he> <deed.past>.
    <somebody> asked <P.him> to <deed>, and <P.he> [agreed|refused|said nothing].
    <P.he> told <somebody> that <person> had <deed.done>.
    <P.his> <relation>, who had <deed.done>, [was <feeling>|did not know what to say].
    before <P.he> <deed.past>, <P.he> had <deed.done>.
    instead of <deed.ing>, <P.he> <deed.past>.
    [by accident|to everyone's surprise] <P.he> <spoil.past> <person>'s <good>.
own.time
    <when>
    on <day>
    in the [morning|evening]
    one <season> day
    <few> [days|weeks|years] later
mine.time
    in the [morning|evening|afternoon]
    after [lunch|breakfast|work]
    [around noon|late at night|before sunrise]
mine
    3* I <deed.past>.
    <mine.time>, I <deed.past>[ because <reason>|].
    my <relation> and I <deed.past>.
    while I was <deed.ing>, <somebody> <deed.past>.
    I wanted to <deed>, but <reason>.
    <somebody> asked me to <deed>, and I [agreed|refused|did not answer].
    my <relation> <deed.past>[, which made me <feeling>|].
    <somebody> told me that <person> had <deed.done>.
    I was <feeling> because <somebody> had <deed.done>.
    by accident I <spoil.past> <person>'s <good>.

story.diary
    <diary.date> <mine*3>[ <diary.end>|]
    <diary.date> <mine*2> <happening> <diary.end>
    <diary.date> <mine*4>
diary.date
    <day>, <weather.sky>.
    <town>, <day> [morning|evening].
    it is <day> again[, and it is <weather.sky>|].
diary.end
    now I am <feeling>, and [tired|it is late].
    tomorrow I must <deed>.
    why do I write all this down? [so that nothing is lost|because nobody asks me|I do not know].

story.street
    <street.open> <happening*3>[ <street.end>|]
    <street.open> <happening*4>
    <street.open> <happening*2> <street.end>
    <street.open> <thread> <thread>
    <street.open> <thread> <happening> <street.end>
thread
    <happening.time><P=person> <deed.past>. <own>
    <P=person>, <job.a>, <manner> <handle.past> <thing>. <own>
    <P=person> has <deed.done>. <own*2>
street.open
    [it was|it is always] quiet in <T=town>[, but not on <day>|].
    the week in <T=town> in short.
    here is what people are talking about in <T=town>.
    around <spot> one hears everything.
street.end
    that is all [for today|from <town>|we know].
    whoever knows more should [write to <paper>|tell <person>|keep it to himself].
"""

CHINESE = """
thing
    3* <good.a>
    2* 一<Thing=good.m><quality>的<Thing>
    一<Thing=good.m><colour>的<Thing>
    一<Thing=good.m><quality>的<colour><Thing>
    <few><Thing=good.m><Thing>
    <few><Thing=good.m><quality>的<Thing>
    <person><handle.once>的那<Thing=good.m><Thing>
    <person>的<good>
    [一篮|一袋|一箱]<fruit>
    [<person>写的|一本]《<book>》
somebody
    4* <person>
    2* <job.a>
    一<Worker=job.m><nature>的<Worker>
    一<Worker=job.m>来自<town>的<Worker>
    <organisation>新来的<job>
    <job><person>
    <person>的<relation>
    <few><Worker=job.m><Worker>
    <town>一<Worker=job.m><nature>的<Worker>
meal
    2* <dish>
    [一份|一盘]<dish>
    <dish>和<dish>
    剩下的<dish>
beast
    2* <animal.a>
    一<Beast=animal.m><colour>的<Beast>
    <few><Beast=animal.m><Beast>
    <person>的<animal>
    <job>家的<animal>
happening
    4* <happening.time><somebody><deed.past>。
    2* <happening.time><somebody><manner>地<handle.past><thing>。
    因为<reason>，<somebody><deed.past>。
    <somebody>正<deed>的时候，<somebody><deed.past>。
    <deed>以后，<somebody><deed.past>。
    <somebody>以前从来没<deed.once>，这回却<deed.past>。
    <somebody>[说|觉得|相信|听说|不承认]<somebody><when><deed.past>。
    “我从来没<deed.once>。”<somebody>说。
    <deed.past>的是<somebody>，不是<person>。
    <person>的<good>[<when>|]被<somebody><harm>了。
    虽然<reason>，<somebody>还是<deed.past>。
    <somebody>本来想<deed>，可是<reason>。
    谁也不知道<somebody>为什么<deed.past>。
    <somebody>一<deed>，<somebody>就<deed.past>。
    [先是|起初]<somebody><deed.past>，后来<somebody><deed.past>[，最后<somebody><deed.past>|]。
    要是<reason>，<somebody>就会<deed>。
    <somebody>和<person>都<deed.past>。
    据说，<somebody>[当年|曾经]<deed.past>。
    <somebody>答应要<deed>[，可是没做到|]。
    不光<job>，连<somebody>也<deed.past>。
    <somebody>一边<calm>，一边等<somebody>。
    <somebody>把<person>的<good><harm>了。
    <good>嘛，<somebody>[多的是|从来不缺|一直想要]。
happening.time
    4* -
    <when>，
    <day>，
    [早上|傍晚|中午|深夜]，
    <season>的一天，
    今年年初，
own
    3* <P.he><deed.past>。
    <own.time>，<P.he><deed.past>。
    因为<reason>，<P.he>只好<deed>。
    <P.he><manner>地<handle.past><thing>。
    <P.he>正<deed>的时候，<somebody><deed.past>。
    <P.he>本来想<deed>，可是<reason>。
    看见<somebody><deed.past>，<P.he>也<deed.past>。
    <somebody>请<P.he><deed>，<P.he>[答应了|没答应|没说话]。
    <P.he>告诉<somebody>，<person><deed.past>。
    <P.he>的<relation><deed.past>，<P.he>[觉得很<feeling>|不知道说什么好]。
    <P.he>先<deed.past>，然后才<deed>。
    <P.he>没有<deed>，而是<deed.past>。
    <P.he>[不小心|差一点儿]把<person>的<good><spoil>了。
own.time
    <when>
    <day>
    [早上|傍晚]
    <season>的一天
    过了<few>[天|个星期|年]
mine.time
    [早上|晚上|下午]
    [午饭|早饭|下班]后
    [中午|半夜|天还没亮]
mine
    3* 我<deed.past>。
    <mine.time>，我<deed.past>。
    因为<reason>，我只好<deed>。
    我和<relation>一起<deed.past>。
    我正<deed>的时候，<somebody><deed.past>。
    我本来想<deed>，可是<reason>。
    <somebody>请我<deed>，我[答应了|没答应|没吭声]。
    我<relation><deed.past>[，我觉得很<feeling>|]。
    <somebody>告诉我，<person><deed.past>。
    听说<somebody><deed.past>，我很<feeling>。
    我不小心把<person>的<good><spoil>了。

story.diary
    <diary.date><mine*3>[<diary.end>|]
    <diary.date><mine*2><happening><diary.end>
    <diary.date><mine*4>
diary.date
    <day>，<weather.sky>。
    <day>[早上|晚上]，于<town>。
    又是<day>[，<weather.sky>|]。
diary.end
    现在我很<feeling>，[也累了|夜已经深了]。
    明天我得<deed>。
    为什么要写这些呢？[怕忘了|因为没有人问我|我也不知道]。

story.street
    <street.open><happening*3>[<street.end>|]
    <street.open><happening*4>
    <street.open><happening*2><street.end>
    <street.open><thread><thread>
    <street.open><thread><happening><street.end>
thread
    <happening.time><P=person><deed.past>。<own>
    <job><P=person><manner>地<handle.past><thing>。<own>
    <P=person>[终于|又]<deed.past>。<own*2>
street.open
    <T=town>[一向|平时]很安静[，<day>却不一样|]。
    <T=town>一周简讯。
    <T=town>的人最近都在谈这些事。
    在<spot>一带，什么消息都听得到。
street.end
    [今天|<town>的消息|我们知道的]就是这些。
    知道详情的人，请[给《<paper>》写信|告诉<person>|自己留着]。
"""


def clause_rules(language: str) -> list[str]:
    """The sentences, and the predicate in each tense; what only happens to people is never wanted or promised."""
    text, predicate, chance = (
        (ENGLISH, ENGLISH_PREDICATE, ENGLISH_CHANCE)
        if language == "en"
        else (CHINESE, CHINESE_PREDICATE, CHINESE_CHANCE)
    )
    meant = ("", ".ing") if language == "en" else ("",)
    happened = (".past", ".done") if language == "en" else (".past", ".once")
    return [
        text,
        *(predicate.replace("%", form) for form in meant),
        *((predicate + chance.lstrip("\n")).replace("%", form) for form in happened),
    ]
