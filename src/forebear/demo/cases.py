"""Small incidents with a thread, in both languages: something is stolen, burns, is saved or grows, and people react."""

from __future__ import annotations

ENGLISH = """
story.case
    <theft.open> <theft.notice>[ <theft.seen>|] <theft.found>[ <theft.end>|]
    <theft.open> <theft.seen> <theft.found> <theft.end>
    <fire.open> <fire.inside>[ <fire.help>|] <fire.end>[ <fire.cause>|]
    <fire.open> <fire.help> <fire.cause> <fire.end>
    <rescue.open> <rescue.how>[ <own>|] <rescue.end>
    <record.open> <record.size> <record.secret>[ <record.end>|]
theft.open
    <colour.a> <G=good> was stolen from <P=person> <L=place.at> in <T=town> [on <day>|<when>].
    somebody has stolen <P=person>'s <G=good> <L=place.at> in <T=town>.
    when <P=person> came back <L=place.to> in <T=town> <when>, <P.his> <colour> <G=good> was gone.
theft.notice
    <P.he> noticed it only when <P.he> wanted to <deed>.
    at that moment <P.he> was <deed.ing>.
    “[it was a present from my <relation>|I had bought it <when>|I looked away for a minute],” said <P.mr>.
    <P.he> had owned it for <few> years and never lent it to anybody, not even to <P.his> <relation>.
theft.seen
    <Q=person-P>, <job.a>, saw [a man in <colour.a> coat|somebody running towards <spot>|nothing because <reason>].
    <Q=person-P>, who had just <deed.done>, [called the police|ran after the thief|heard a noise].
    there is one witness, <Q=person-P>, but <Q.he> was <deed.ing> and [remembers nothing|saw only a shadow].
theft.found
    <few> days later the <G> was found [<place.at>|under a tree|in <town-T>|behind <organisation>].
    so far the <G> has not been found.
    the thief brought the <G> back [himself|at night|with a short letter|a week later].
    the police suspect <job.a> who <deed.past> nearby.
theft.end
    <P.mr> is <feeling>.
    “[I never want to see it again|all is well that ends well|I shall be more careful],” said <P.mr>.
    <P.his> <relation> has promised to give <P.him> <thing>.
fire.open
    a fire broke out <L=inside.at> in <T=town> [on <day>|<when>|late at night].
    <few> fire engines hurried <L=inside.to> in <T=town> <when>.
fire.inside
    <P=person>, <job.a>, was <deed.ing> when [the smoke came|the alarm rang|the lights went out].
    <P=person> first thought that somebody was cooking <dish>.
fire.help
    <H=person> carried [<good.a>|<animal.a>|<few> <good.s>] out of the building.
    <H=person>, <job.a>, [called the fire brigade|fetched water from the river|woke the neighbours].
    <few> <job.s> and <somebody> formed a chain and passed buckets from hand to hand.
fire.cause
    the cause was [a candle|an old cable|a forgotten pot of <dish>|a cigarette].
    it is not known how it began; <somebody> had <deed.done> there <when>.
fire.end
    nobody was hurt, but [the roof is gone|the damage comes to <price> thousand|a copy of <book> was burnt].
    after <few> hours the fire was out, and everyone [went home|drank <drink>|was given <dish>].
rescue.open
    <P=person>, <job.a> from <T=town>, has rescued <A=animal.a> from [the river|a well|a burning barn|the ice].
    <A=animal.a> fell into [the river|a well|the harbour] in <T=town> and was saved by <P=person>, <job.a>.
rescue.how
    <P.he> had heard it [crying|from afar|while <P.he> was <deed.ing>].
    at first <P.he> thought it was [a child|a toy|<good.a>].
    <P.he> threw off <P.his> coat and jumped in, although <reason>.
rescue.end
    the <A> is called <petname> now and lives with <P.him>.
    the mayor, <M=person-P>, gave <P.him> <thing> as a thank-you.
    “[anybody would have done it|it looked at me|I cannot even swim],” <P.he> said.
record.open
    <P=person>, <job.a> from <T=town>, has grown the largest <F=fruit> [anybody remembers|of the region|of the year].
    the largest <F=fruit> of the year comes from the garden of <P=person> in <T=town>.
record.size
    it weighs <many.digits> kilos and needs a table of its own.
    it is as heavy as <animal.a>, and <few> people are needed to lift it.
record.secret
    “[the secret is <drink>|I talk to it every day|I play the violin to it|I water it at <hour>],” <P.he> says.
    <P.mr> does not want to say how <P.he> did it; <P.his> <relation> only smiles.
record.end
    on <day> it will be [cooked|cut|shown <place.at>|raffled].
    <person> from <town-T> does not believe it and is coming to see it.
"""

CHINESE = """
story.case
    <theft.open><theft.notice>[<theft.seen>|]<theft.found>[<theft.end>|]
    <theft.open><theft.seen><theft.found><theft.end>
    <fire.open><fire.inside>[<fire.help>|]<fire.end>[<fire.cause>|]
    <fire.open><fire.help><fire.cause><fire.end>
    <rescue.open><rescue.how>[<own>|]<rescue.end>
    <record.open><record.size><record.secret>[<record.end>|]
theft.open
    [<day>|<when>]，<P=person><L=place.at>丢了一<G=good.m><colour>的<G>，事情发生在<T=town>。
    <T=town>的<P=person>报案说，<P.he>的<G=good><L=place.at>被人偷走了。
    <when>，<T=town>的<P=person>回到<L=place>，发现自己那<G=good.m><colour>的<G>不见了。
theft.notice
    直到想<deed>的时候，<P.he>才发现东西没了。
    当时<P.he>正<deed>。
    “[那是我<relation>送的|那是<when>刚买的|我只走开了一分钟]。”<P.mr>说。
    这东西<P.he>用了<few>年，连<relation>都没借过。
theft.seen
    <job><Q=person-P>看见[一个穿<colour>大衣的男人|有人往<spot>的方向跑|了，可是没看清，因为<reason>]。
    刚<deed.past>的<Q=person-P>[马上报了警|追了上去|听见了响声]。
    目击者只有<Q=person-P>一个人，可<Q.he>当时正<deed>，[什么也不记得|只看见一个影子]。
theft.found
    <few>天以后，<G>[<place.at>|在一棵树下|在<town-T>|在<organisation>后面]找到了。
    到现在<G>还没有找到。
    小偷[自己|夜里|带着一封短信|擦得干干净净地]把<G>送了回来。
    警察怀疑在附近<deed.past>的一<Worker=job.m><Worker>。
theft.end
    <P.mr>很<feeling>。
    “[我再也不想看见它了|找回来就好|以后我会小心的]。”<P.mr>说。
    <P.he>的<relation>答应送<P.he><thing>。
fire.open
    [<day>|<when>|深夜]，<T=town>有人<L=inside.at>发现了火情。
    <when>，<few>辆消防车赶到了<T=town>的<L=inside>。
fire.inside
    [烟冒出来|警报响|灯灭]的时候，<job><P=person>正<deed>。
    <P=person>起初还以为是谁在做<dish>。
fire.help
    <H=person>从里面抢出了[<good.a>|<animal.a>|<few><Thing=good.m><Thing>]。
    <job><H=person>[打了火警电话|从河里提来了水|叫醒了邻居]。
    <few><Worker=job.m><Worker>和<somebody>排成一排，一桶一桶地传水。
fire.cause
    起火的原因是[一根蜡烛|一条旧电线|一锅忘了关火的<dish>|一个烟头]。
    起火的原因还不清楚，<when><somebody>在那里<deed.past>。
fire.end
    没有人受伤，可是[屋顶没了|损失有 <price> 万元|一本《<book>》烧掉了]。
    <few>个小时以后火灭了，大家[才回家|一起喝了<drink>|每人分到一份<dish>]。
rescue.open
    <T=town>的<job><P=person>从[河里|井里|着火的谷仓里|冰上]救出了<A=animal.a>。
    <A=animal.a>在<T=town>掉进了[河里|井里|港口]，被<job><P=person>救了上来。
rescue.how
    <P.he>[老远|正<deed>的时候|半夜里]听见了它的叫声。
    起初<P.he>还以为那是[一个孩子|一个玩具|<good.a>]。
    虽然<reason>，<P.he>还是脱下大衣跳了下去。
rescue.end
    如今，这<A.m><A>名叫“<petname>”，就住在<P.he>家里。
    镇长<M=person-P>送给<P.he><thing>，表示感谢。
    “[换了谁都会这么做|它一直看着我|其实我连游泳都不会]。”<P.he>说。
record.open
    <T=town>的<job><P=person>种出了[没人见过的|全地区最大的|今年最大的]<F=fruit>。
    今年最大的<F=fruit>出在<T=town><P=person>的园子里。
record.size
    它重 <many.digits> 公斤，得单独放一张桌子。
    它跟<animal.a>一样重，要<few>个人才抬得动。
record.secret
    “[秘诀是<drink>|我每天跟它说话|我给它拉小提琴|我每天夜里<hour>点给它浇水]。”<P.he>说。
    <P.mr>不肯说是怎么种的，<P.he>的<relation>也只是笑。
record.end
    <day>，它将被[下锅|切开|<place.at>展出|抽奖送出]。
    <town-T>的<person>不相信，要亲自来看看。
"""


def rules(language: str) -> str:
    return ENGLISH if language == "en" else CHINESE
