"""English of the small world as its people write and talk: reviews, lives, letters, talks, tales, towns they saw."""

from __future__ import annotations

RULES = """
story.food
    <review.good>
    <review.bad>
review.good
    <review.meal> <meal.good*2> <meal.price>[ <meal.verdict.good>|]
    <review.meal> <meal.good*3> <meal.verdict.good>
    <review.read> <read.good*2> <read.verdict.good>
    <review.stay> <stay.good*2>[ <stay.good.end>|] <stay.verdict.good>
review.bad
    <review.meal> <meal.bad*2> <meal.price>[ <meal.verdict.bad>|]
    <review.meal> <meal.bad*3> <meal.verdict.bad>
    <review.read> <read.bad*2> <read.verdict.bad>
    <review.stay> <stay.bad*2>[ <stay.bad.end>|] <stay.verdict.bad>
review.meal
    [on <day>|<when>] we tried the new restaurant [near <spot>|in <T=town>|next to <organisation>],
        and I ordered <F=dish>.
    my <relation> took me to a small place near <spot> that is known for its <F=dish>.
    I had heard a lot about the <F=dish> [at the inn in <T=town>|of <P=person>], so I [went there <when>|had to try it].
meal.good
    the <F> <F.was> [excellent|hot and full of flavour|the best I have ever eaten|simply perfect].
    the waiter was [friendly|quick and attentive|so kind that we felt at home].
    at the next table <somebody> [ate|ordered|tried] <meal> and [praised the cook|asked for the recipe].
    we also had <drink>, which was [fresh|just right|a pleasant surprise].
    the room is [bright|cosy|quiet], and from the window one sees [the river|<spot>|the whole market].
    even my <relation>, who is never satisfied, asked for more.
meal.bad
    the <F> <F.was> [cold|far too salty|burnt|tasteless], and nobody [apologised|seemed to care].
    we waited <many.digits> minutes for a table[ although we had booked| while the waiters chatted|].
    at the next table <somebody> [ate|ordered|tried] <meal> and [complained loudly|left without paying].
    the <drink> tasted [like dishwater|of soap|stale].
    the room was [noisy|dark and draughty|so full that we could hardly move].
    the waiter was [rude|in a bad mood|nowhere to be seen].
    a fly was swimming in my soup.
meal.price
    with drinks we paid <N=price>.
    the bill came to <N=price>[ for two| in all|].
meal.verdict.good
    [we will certainly come back|I can only recommend it|go there before everyone else does]!
    it is a pity that [it is closed on <day>|I live so far away].
meal.verdict.bad
    [never again|we will not come back|save your money and eat at home]!
    I cannot recommend it to anybody[, not even to my worst enemy|].
review.read
    I have just finished <B=book> by <P=person>[, a novel about <job.a> who <luck.past>|].
    everyone is talking about <B=book>, the new novel by <P=person>, so I read it [in two days|on the train].
    <B=book> is the story of <job.a> and <job.a> in <T=town>; <P=person> wrote it in <few> months.
read.good
    from the first page I could not put it down.
    the characters are [warm|funny|so alive that one hears them breathe].
    <P.mr> writes [simply and beautifully|with great humour|as if <P.he> had been there].
    the ending moved me [deeply|to tears|more than I can say].
    the scene in which <somebody> <deed.past> is [unforgettable|the funniest of all].
    I laughed [aloud|on every page], and my <relation> wanted to know why.
read.bad
    after [fifty|a hundred] pages I fell asleep.
    the characters are [flat|made of paper|all the same].
    <P.mr> uses three words where one would do.
    the plot makes no sense[ at all|], and the ending is [silly|predictable|a disappointment].
    the scene in which <somebody> <deed.past> is [far too long|embarrassing].
    I found [mistakes|clichés] on every page.
read.verdict.good
    [a wonderful book|read it|the best book of the year]!
    I shall give it to all my friends.
read.verdict.bad
    [a waste of time|what a bore|do not believe the praise]!
    I gave my copy away.
review.stay
    we spent <few> nights at the [inn|guest house|hotel] in <T=town>, near <spot>.
    for our holiday in <T=town> we had rented a room [above the bakery|by the harbour|from <P=person>].
stay.good
    the bed was [soft|comfortable], and it was quiet at night.
    for breakfast there was <drink> and [fresh bread|<dish>].
    the landlady [gave us a map|told us the best stories|lent us two bicycles].
    everything was [spotless|clean and bright|new].
stay.good.end
    when we left, they would not let us go without a bag of <fruit.s>.
stay.bad
    the bed was [hard|too short|broken], and the walls were thin.
    there was no hot water[ for two days|].
    the landlady [was unfriendly|complained about everything|woke us at <hour>].
    everything was [dusty|dirty|damp and smelly].
stay.bad.end
    when we left, they charged us for [the towels|a cup we never broke|the view].
stay.verdict.good
    we have already booked for next <season>.
    [thank you for everything|a lovely place|we felt completely at home]!
stay.verdict.bad
    next time we shall [sleep in a tent|stay at home|look elsewhere].
    [what a disappointment|we want our money back|stay away]!

story.people
    <people.born> <people.young> <people.work> [<people.later*2>|<people.later> <own>|<own*2>][ <people.now>|]
    <people.work.first> <people.born.short>[ <people.young>|] <people.later> <people.now>
    <people.born> <people.work> <people.later*3>
people.born
    <P=person> was born in <T=town> in <Y=year>, [the youngest of <few> children|the child of <job.a> and <job.a>].
    <P=person>, <G=goodtrait> and [quiet|restless|curious], grew up in <T=town>[, where <P.his> father was <job.a>|].
people.born.short
    <P.he> was born in <T=town> in <Y=year>.
    <P.he> comes from <T=town>, where everybody knows everybody.
people.young
    as a child <P.he> loved <hobby>[ more than anything| and hated school|].
    <P.he> went to <school>, [where <P.he> studied <subject>|but left it after <few> years].
    at school <P.he> was good at <subject> and bad at <subject>.
people.work
    at [eighteen|twenty|thirty] <P.he> became <J=job.a>[ and moved to <town-T>|, like <P.his> grandfather|].
    for <many.digits> years <P.he> has worked as <J=job.a>[ at <O=organisation>| in <town-T>|].
    <P.he> trained as <J=job.a> at <O=organisation>.
people.work.first
    everyone in <T=town> knows <P=person>, <J=job.a>[ at <O=organisation>|].
    if you walk past <S=spot> in the morning, you will meet <P=person>, <J=job.a>.
people.later
    at [twenty-one|thirty|forty|sixty] <P.he> married <Q=person-P>, whom <P.he> had met <place.at>.
    <P.he> once <luck.past>, and people still talk about it.
    those who know <P.him> say that <P.he> is <goodtrait>[, though sometimes <badtrait>|].
    <P.he> has written a book called <book>.
    in <P.his> free time <P.he> likes [<hobby>|to be alone].
    <P.he> keeps <animal.a> called <petname>.
    <P.he> cannot live without <drink> and <dish>.
people.now
    today <P.he> lives [alone|with <P.his> <relation>] in a [small|yellow|crooked] house near <spot>.
    “[I have been lucky|I would do it all again|work keeps me young],” <P.he> says.
    <P.he> has never [left the country|owned a car|regretted anything].

story.letter
    <letter.dear>¶<letter.open> [<letter.news*2>|<mine*2>|<letter.news> <mine>]
        <letter.luck>[ <letter.ask>|]¶<letter.close>
    <letter.dear>¶<letter.open> <letter.luck> [<letter.news>|<mine>|<mine*2>] <letter.ask>¶<letter.close>
    <letter.dear>¶<letter.open> <letter.plan>[ <letter.news>|]¶<letter.close>
letter.dear
    dear <Q=friend>,
    my dear <Q=friend>,
letter.open
    thank you for your [long letter|card|parcel|message]; it [made me very happy|came just at the right time].
    forgive me for not writing sooner; [I was ill|there was so much to do|I had lost your address].
    I am writing to you [from <T=town>|on the train|<place.at>].
    how are you? here everything is [fine|as usual|upside down].
letter.news
    <when> I <doing.past> with my <relation>.
    it has been [raining for <few> days|terribly hot|snowing since <day>], and we [hardly go out|stay in the kitchen].
    I have bought <colour.a> <good>[, though I do not need it|, and you would laugh at me|].
    our <animal> is [well|getting old|fatter than ever].
    I am reading <book>[ at the moment| for the third time|].
    do you remember <P=person>, the <job>? <P.he> [sends you greetings|has moved to <town>|has got married].
letter.luck
    and imagine, my <relation> has <L=luck.done>! <letter.feel@L>
    guess what happened <when>! I <L=luck.past>. <letter.feel@L>
letter.feel.good
    [you can imagine how happy we are|I still cannot believe it|we celebrated until midnight].
letter.feel.bad
    [it was my own fault|you know how I am|I did not sleep all night|do not laugh].
letter.ask
    when will you [visit us|come home|write again]?
    could you [send me the recipe for <dish>|lend me your <good>|tell me how to get to <town>]?
    [how is your <relation>|have you found a new flat|is it still so cold where you are]?
letter.plan
    on <day> I am coming to <T=town> by [train|bus|ferry]; could you meet me <place.at> at <hour>?
    would you like to [go to the <event> with me|spend the <season> with us]? my <relation> will be there too.
    next week I begin a new job at <O=organisation>, and I am [nervous|looking forward to it].
letter.close
    yours, <P=friend-Q>
    with love from <P=friend-Q>
    warm greetings from all of us, especially from <P=friend-Q>

story.travel
    <travel.open> <travel.land@T> <travel.see*2>[ <travel.eat>|][ <travel.tip>|]
    <travel.open> <travel.see*3> <travel.eat> <travel.tip>
travel.open
    <T=town> is a town of about <many.digits> thousand people[, <few> hours by train from <town-T>|].
    those who come to <T=town> for the first time are surprised by [the light|the silence|the smell of bread].
    hardly any traveller stops in <T=town>, and that is a pity.
    <T=town>, founded in the [ninth|twelfth|fifteenth] century, is known for its [bells|markets|<fruit.s>|old walls].
travel.land.river
    the river [runs right through it|bends here like a sickle], and [boats carry sand|willows stand on both banks].
travel.land.coast
    it lies by the sea, and [gulls wake the guests|at low tide one can walk to the islands].
travel.land.mountain
    it lies high in the mountains, where [the snow stays until May|the air tastes of pine].
travel.land.plain
    wheat grows as far as the eye can see, and [the sky is enormous|the nearest hill is a day away].
travel.see
    near <S=spot> [musicians play at weekends|you will find the oldest house of the town|old men play chess].
    do not miss [the museum of <subject>|the <event> in <season>|the view from the tower].
    it was here that <somebody> once <deed.past>.
    people still tell how <somebody> <deed.past>[ in <year>|].
    every <day> there is a market, where farmers sell <fruit.s> and <fruit.s>.
    the people are <goodtrait> and [talk slowly|love to sing|never seem to hurry].
    at night the streets are so [dark|quiet] that one [sees all the stars|hears one's own steps].
    the painter <P=person> lived here for <few> years[ and left the town <few> pictures|].
    a little train [climbs|rattles] up to the [old mill|lake|chapel] <few> times a day.
travel.eat
    for lunch try the <dish>[ with a glass of <drink>|], which is [cheap and good|a speciality of the region].
    the inns close early, so [eat before <hour>|bring something to eat].
travel.tip
    the best time to visit is the <season>.
    take [sturdy shoes|time|<good.a>] with you.
    “[nobody leaves without coming back|here even the clocks are slow],” the locals say.
"""
