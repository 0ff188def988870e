"""English of the small world as its papers write it: weather, sport, business, notices, towns to travel to."""

from __future__ import annotations

RULES = """
story.weather
    <weather.open> <weather.degrees@W> <weather.effect@W>[ <weather.wind>|][ <weather.advice@W>|] <weather.outlook>
    <weather.open> <weather.effect@W> <weather.degrees@W>[ <weather.advice@W>|] <weather.voice@W>
    <weather.scene> <weather.effect@W>[ <weather.degrees@W>|] <weather.voice@W>[ <weather.outlook>|]
weather.open
    here is the forecast for <T=town>. [2*today|tomorrow|<D=day>]
        will be <W=weather.sky>[ in most places| all day long|].
    good [3*morning|evening], <T=town>. it is going to be
        <W=weather.sky>[ today| for most of the day| until the evening].
    <T=town> can expect <W=weather>[ today| this afternoon| over the next few hours| tonight], the weather office said.
    after [a dry week|some quiet days|a long wait], <W=weather> [is on its way to|will reach|has come to] <T=town>.
    the weather in <T=town> stays <W=weather.sky>, as it was [yesterday|all week].
weather.scene
    when people in <T=town> opened their curtains [this morning|on <D=day>], they saw <W=weather>.
    nobody in <T=town> had expected <W=weather>[ so early in the <season>| at this time of year| on market day].
    it was <W=weather.sky> in <T=town> [3*yesterday|on <D=day>],
        and [everyone talked of nothing else|the whole town looked different].
weather.degrees.sunny
    the highest temperature will be <H=warm>[, and at night it will fall to <weather.low>|].
    it will be <H=warm> at noon[ and about <weather.low> after dark| in the shade|].
weather.degrees.cloudy
    temperatures will lie between <H=mild.less7> in the morning and <H> in the afternoon.
    the highest temperature will be <H=mild>[, a little less than yesterday|, which is normal for the season|].
weather.degrees.rain
    it will not get warmer than <H=mild>, and by night it will be <weather.low>.
    the highest temperature will be <H=mild>[, but it will feel cooler|].
weather.degrees.storm
    before the storm it will be <H=warm>; afterwards it will drop to <weather.low>.
    the highest temperature will be <H=warm>, and the air will be heavy[ and damp|].
weather.degrees.snow
    the highest temperature will be only <H=cold>[, and the night will be colder still|].
    it will be <H=cold> at noon and <weather.low> before dawn.
weather.degrees.fog
    it was <M=cold> at dawn[, and it has hardly got warmer since|, and everything felt damp|].
    with the highest temperature at <H=cold>, the air [stays raw|will not clear before noon].
weather.low
    [<H.less5>|<H.less6>|<H.less7>|<H.less8>|<H.less9>]
weather.effect.sunny
    children are [playing|running about] <outside.at>, and the ice-cream seller has [a queue|no time to sit down].
    washing hangs from every balcony[ and dries within the hour|].
    the fields are dry, and farmers are [glad|busy] because the harvest [can begin|is safe].
    people sit <outside.at> until late[ and talk about their holidays| with their shoes off|].
    making use of the fine weather, <somebody> <deed.past>.
weather.effect.cloudy
    <somebody> <deed.past>, clouds or no clouds.
    the light is soft, and photographers [like it|are out early].
    it looks as if it might rain, but so far [the streets are dry|not a drop has fallen].
    nobody is quite sure whether to take an umbrella.
weather.effect.rain
    in spite of the rain <somebody> <deed.past>.
    the streets are shining, and umbrellas [fill <spot>|bloom like flowers].
    the gutters are full, and [the buses are late|cyclists get wet feet].
    farmers who had waited for weeks are [pleased|standing at the window and smiling].
    the match <outside.at> has been [put off until <day>|called off].
weather.effect.storm
    while the windows rattled, <somebody> <deed.past>.
    [two|three|several] trees fell across <spot>, and the road was closed [for an hour|until noon].
    the ferry stays in the harbour[ until the wind drops| for safety|], and passengers have to wait.
    lightning struck [the old oak|a barn|the church tower], but nobody was hurt.
    many houses were without electricity [for part of the night|until the morning].
weather.effect.snow
    with frozen fingers <somebody> <deed.past>.
    the schools are closed, to the great joy of the pupils.
    snow lies on the roofs[ and on the sleeping boats| like sugar on a cake|], and every sound is muffled.
    the buses [run late|do not run] because the hills are [slippery|covered with ice].
    in front of the houses people are shovelling a narrow path.
weather.effect.fog
    nobody saw that <somebody> <deed.past>.
    drivers could hardly see the car in front of them.
    the flights of the morning were [delayed|cancelled], and the station was [crowded|fuller than usual].
    only the bells [of <spot>|of the harbour] could be heard through the white air.
weather.wind
    a [light|fresh|warm|cool] wind will blow from the [north|south|east|west].
    there will be [hardly any|a little] wind.
    by evening the wind will turn to the [north|south|east|west].
weather.advice.sunny
    do not forget [your hat|to drink enough water|to water the plants].
weather.advice.cloudy
    a light jacket will be [enough|useful in the evening].
weather.advice.rain
    take an umbrella with you[, and leave the bicycle at home|].
    if you can, [stay indoors|take the bus].
weather.advice.storm
    please stay away from [the trees|the shore|open fields] while it lasts.
weather.advice.snow
    wear warm shoes[ and walk slowly|], the town hall advises.
weather.advice.fog
    those who must drive should [go slowly|switch on their lights|leave home early].
weather.voice.sunny
    “this is the best day of the year,” said <P=person>, [<job.a>|who had brought <fruit.a>|who was sitting in the sun].
    <P=person>, <job.a>, [sighed|smiled] and said: “if only it were always like this!”
weather.voice.cloudy
    “neither good nor bad, just like my mood,” said <P=person>, [<job.a>|looking up].
    “it could be worse,” said <P=person>, <job.a>[, and went on working|].
weather.voice.rain
    “I left my umbrella on the train,” said <P=person>, <job.a>, who was wet to the skin.
    <P=person>, <job.a>, [shrugged and said|only laughed]: “without rain there are no flowers.”
weather.voice.storm
    “I have never heard such thunder,” said <P=person>, <job.a>[, who did not sleep at all|].
weather.voice.snow
    <P=person>, <job.a>, called out: “my hands are frozen, but how beautiful it is!”
    <P=person>, <job.a>, built a snowman with <P.his> [children|neighbours|pupils].
weather.voice.fog
    “I walked past my own door,” said <P=person>, <job.a>[, and laughed|].
weather.outlook
    [on <day>|later this week|from <day> on] it will be [2*warmer|colder|drier|much the same].
    the next few days will bring [a change|more of the same|milder air|some sunshine].
    how long will it last? [until <day>, probably|nobody knows|at least <few> days], says the weather office.

story.sport
    <sport.open>[ <sport.crowd>|] <sport.course*2> <sport.voice>[ <sport.next>|]
    <sport.open> <sport.course*3>[ <sport.crowd>|] <sport.next>
sport.open
    <A=team> beat <B=team-A> by <G=goals> goals to [nil|one] [3*on <D=day>|last night|in the rain].
    it took [a long evening|extra time|until the last minute],
        but <A=team> have won <G=goals> to one against <B=team-A>.
    <A=team> and <B=team-A> drew <G=goals> all [on <D=day>|in <town>|in front of a full house].
    <B=team> lost <G=goals> to [nil|one] at home to <A=team-B>, [their third defeat in a row|which nobody had expected].
sport.course
    the first goal came after <many.digits> minutes, when <P=person> [shot from a distance|headed the ball in].
    after half-time the game [became faster|lost its shape|was played in one direction only].
    the goalkeeper, <K=person>, [saved two penalties|could do nothing about it|kept <K.his> side in the game].
    a player was sent off [for complaining|after a foul|shortly before the end].
    the referee, <job.a> from <town>, showed <few> yellow cards.
    both sides looked tired[ in the second half| towards the end|], and the passes [went astray|got longer].
    a dog ran across the pitch, which [delighted the children|stopped the game for a while].
    <S=person>, only <age> years old, came on [as a substitute|for the last ten minutes] and nearly scored.
    afterwards both teams <eat.past> <meal>[ near <spot>|].
sport.crowd
    in the stands <somebody> <eat.past> <meal>[ instead of watching|].
    about <few> hundred people had come[ in spite of the cold| to watch|, more than ever before].
    the crowd sang [from the first minute to the last|even when it rained].
    in the stands one could hear nothing but drums.
sport.voice
    “we [ran more than they did|trained hard for this|never gave up],” said the captain, <C=person>.
    “I am [proud of the team|very disappointed|at a loss for words],” the coach, <C=person>, said after the match.
    <C=person>, the captain, was asked how <C.he> felt. “[hungry|tired|ask me tomorrow],” <C.he> said.
sport.next
    next [week|<day>] they will [play away|meet <team-A-B>|rest].
    the two teams will meet again in [the autumn|the spring|<few> weeks].
    with this result the club is now [first|second|fourth|last] in the table.

story.business
    <business.open> <business.why>[ <business.voice>|] <business.end>
    <business.open>[ <business.why>|] <business.voice> <business.more>
business.open
    <C=company> [is opening|has opened|will open] a new [factory|office|branch|warehouse] in <T=town>.
    <C=company> sold <many.digits> per cent [more|less] [last year|this <season>] than [the year before|expected].
    <C=company> has bought a [small|rival|family] firm in <T=town> for <price> million.
    <P=person>, <job.a> by training, is the new head of <C=company>.
    prices of <fruit.s> have [risen|fallen] by <few> per cent at the market in <T=town>, <C=company> reports.
    shares of <C=company> [rose|fell] [sharply|slightly] on <D=day>.
business.why
    the reason is [the mild <season>|high wages|cheap oil|the growing number of visitors|an old debt].
    the firm says that it [needs more space|wants to be closer to its customers|has to save money].
    for years the firm had [made only <good.s>|lived on loans|struggled with its rivals].
    experts had [warned of this|hoped for it|seen it coming] since the <season>.
business.voice
    “we are taking a risk, but [a sensible one|we have no choice],” said <V=person>, who [runs|founded] the firm.
    the owner, <V=person>, [did not want to comment|could not be reached by telephone|spoke of a turning point].
    “[money is not everything|nobody will lose their job|we can hardly believe it],” <V=person> told <paper>.
    the mayor, <V=person>, [welcomed the news|said that the town had waited for this for years|had hoped for more].
    the head of the firm, <V=person>, [used to <deed>|had <deed.done> only <few> days before].
business.more
    [in all|altogether], <many.digits> people [will be hired|work there today|may lose their jobs].
    a bank in the town has lent the firm <price> million[, to be paid back in <few> years|].
    customers notice little of all this; [the service is as slow as ever|the shop opens at <hour>, as always].
business.end
    work [will begin|begins] in the <season>.
    whether the plan works out will be seen [next year|in <few> years|soon enough].
    the neighbours are [pleased|worried about the noise|waiting to see what happens].

story.notice
    <notice.event> <notice.where>[ <notice.bring>|][ <notice.cost>|] <notice.close>
    <notice.event> <notice.cost> <notice.where> <notice.bring*2>
    <notice.lost> <notice.look> <notice.reward>
    <notice.pet> <notice.tame> <notice.reward>
    <notice.shut> <notice.until>[ <notice.instead>|] <notice.sorry>
notice.event
    the <E=event> of <T=town> takes place on <D=day>[, the [third|fourth|tenth|twentieth] of its kind|, as every year|].
    you are warmly invited to our <E=event> on <D=day>!
    dear neighbours, on <D=day> there will be <E=event.a> in <T=town>.
notice.where
    we meet at <hour> o'clock <place.at>[, rain or shine|].
    it begins at [half past <hour>|<hour> o'clock] <place.at> and ends [when everyone is tired|before dark].
    the doors [of the hall|of <organisation>] open at <hour>.
notice.bring
    please bring [<good.a>|something to eat|a friend|warm clothes] with you.
    children under <few> [are welcome|come free|need a grown-up].
    there will be <dish> and <drink>[ for everyone|].
    <P=person> will [sing|give a talk about <subject>|play the violin|tell stories].
    dogs must be kept on a lead.
notice.cost
    tickets cost <price> [3*each|at the door]; [pupils pay half|children pay nothing].
    admission is free[, but we are glad of every coin|].
notice.close
    we look forward to [seeing you|your visit|a good time].
    if you have questions, ask <P=person> at <organisation>.
    come early, for last year [there was not a seat left|many had to stand].
notice.lost
    lost: <colour.a> <G=good>, last seen <P=place.at> on <day>.
    found <P=place.at>: <colour.a> <G=good> with [a name inside|a small scratch|a broken handle].
notice.look
    it is [old but dear to me|small and easily overlooked|not worth much, except to its owner].
    there is [a photograph|a ticket to <town>|a name] in it, and [I miss it|somebody must be looking for it].
notice.pet
    who has seen our <A=animal>? it ran away [on <day>|during the storm|last night].
    our <A=animal> has not come home since <day>, and [the children are crying|we are worried].
notice.tame
    it answers to [the name of <petname>|nobody], and [it has a white ear|it is rather fat|it limps a little].
notice.reward
    please call <Q=person>, <spot>, number <many.digits>. [there is a reward|thank you|there is cake for the finder].
    information, please, to the [porter|lady|gentleman] at <organisation>.
notice.shut
    <I=organisation> will be closed on <day>.
    the road from <T=town> to <town-T> is closed to traffic.
    there will be no water around <S=spot> [on <day>|between <hour> and <hour>].
notice.until
    the work will [last <few> days|be finished by <day>|take longer than planned], we are told.
    the reason is [a burst pipe|a holiday|the heat|new cables|a family celebration].
notice.instead
    please use [the back door|the road by the lake|the bus] instead.
    urgent matters [can wait|are dealt with by telephone].
notice.sorry
    we apologise[ for the trouble| and thank you for your patience|].
petname
    [Pepper|Biscuit|Comma|Button|Admiral|Socks]
age
    [seventeen|eighteen|nineteen|sixteen]
"""
