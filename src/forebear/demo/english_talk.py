"""English of the small world as it is spoken and told: talks in the street, small tales, scenes around one word."""

from __future__ import annotations

RULES = """
story.talk
    <talk.hello><talk.turn+2><talk.bye>
    <talk.hello><talk.luck><talk.bye>
    <talk.hello><talk.luck><talk.turn><talk.bye>
    <talk.way>
talk.hello
    <A=friend>: good [morning|evening|afternoon], <B=friend-A>!<talk.b>[hello|oh, it's you|how nice to see you], <A>.
    <A=friend>: hello, <B=friend-A>, how are you?<talk.b>[not bad|fine, thanks|a little tired], and you?
    <A=friend>: <B=friend-A>, what are you doing here?<talk.b>I am
        [waiting for the bus|on my way <place.to>|<calm.ing>].
talk.turn
    <talk.a>where [were you|have you been] <when>?<talk.b>[<inside.at>|<outside.at>]. I <doing.past>.
    <talk.a>have you heard? <P=person> is moving to <town>.<talk.b>really? I thought <P.he> [was happy
        here|had a job at <organisation>].
    <talk.a>what shall we eat tonight?<talk.b>[how about <dish>|I feel like <dish>|anything but <dish>].
    <talk.a>is that a new <good>?<talk.b>yes, I bought it <when>. it cost <price>.
    <talk.a>do you like <hobby>?<talk.b>[very much|not really], but I [have no time|prefer <hobby>].
    <talk.a>what will the weather be like tomorrow?<talk.b>they say it will be <weather.sky>.
    <talk.a>when does the <event> begin?<talk.b>at <hour>, I think. [shall we go together|don't be late]?
    <talk.a>who is that over there?<talk.b>that is <P=person>, <job.a>. <P.he> is very <trait>.
    <talk.a>could you lend me your <good>?<talk.b>[of course|I'm sorry, I need it myself|only until <day>].
    2* <talk.a>[what is new|have you heard anything|what do people say]?<talk.b><happening>
    2* <talk.a>and what did you do <when>?<talk.b>I <deed.past>[. and you?<talk.a>I <deed.past>|].
    <talk.a>who <deed.past>?<talk.b>[<somebody>, I think|it was <somebody>|I have no idea].
    <talk.a>why did <somebody> <deed>?<talk.b>[because <reason>|perhaps because <reason>|don't ask me].
    <talk.a>would you like to <deed>?<talk.b>[with pleasure|not today, I have to <deed>|I would rather <deed>].
    <talk.a>may I ask you something? did <somebody> really <deed>?<talk.b>[yes, <when>|no, that was <somebody>].
talk.luck
    <talk.a>you look [so cheerful|very pleased] today. what happened?<talk.b>I <L=fortune.past>.<talk.answer>
    <talk.a>you look [pale|tired|worried]. what happened?<talk.b>I <L=misfortune.past>.<talk.answer>
    <talk.a>is it true that you <L=luck.past>?<talk.b>yes, <when>.<talk.answer>
talk.answer
    <talk.a><talk.react@L><talk.b><talk.thanks>
talk.thanks
    [thank you|you are very kind|I will tell you more next time].
    thanks. and you, what is new?<talk.a>[nothing special|everything is as usual].<talk.b>good.
    thanks. and how is your <relation>?<talk.a>[very well|not so well|busy, as always].<talk.b>[please say hello|I see].
talk.react.good
    that is the best news [of the week|since <day>].
    [congratulations|how wonderful|I am so glad for you]! let us celebrate.
    I knew it! you have earned it.
talk.react.bad
    the same thing happened to [me|<person>|my <relation>] <when>.
    [oh dear|I am sorry to hear that|what bad luck]. can I help you?
    don't worry, [it could be worse|it happens to everyone].
talk.bye
    <talk.a>I have to go now. see you [on <day>|tomorrow|soon]!
    <talk.a>well, give my regards to your <relation>.<talk.b>I will.
    <talk.a>here comes my bus. [goodbye|take care]!<talk.b>[bye|see you]!
talk.way
    <A=friend>: excuse me, how do I get to <S=spot>?<talk.x>go straight on and turn [left|right] at the
        [bakery|church|bridge].<talk.a>is it far?<talk.x>[no, about <few> minutes on foot|quite far, better take the
        number <few> bus].<talk.a>thank you[ very much|]!
talk.a
    ¶<A>:_
talk.b
    ¶<B>:_
talk.x
    ¶passer-by:_

story.tale
    <tale.open> <tale.scene*2> <tale.luck> <tale.end@L>
    <tale.open> <own*2> <tale.luck> <tale.end@L>
    <tale.open> <tale.want> <own*2>[ <tale.scene>|] <tale.luck> <tale.end@L>
    <tale.open> <tale.scene> <own*3> <tale.luck> <tale.end@L>
    <tale.open> <tale.want>[ <tale.scene>|] <tale.luck>[ <tale.say@L>|] <tale.end@L>
tale.open
    once there was <J=job.a> in <T=town> whose name was <P=person>.
    <P=person> lived [alone|with <animal.a>|with <P.his> <relation>] in the last house of <T=town>.
    when <P=person> was young, <P.he> worked as <J=job.a>[ in <T=town>|].
    in the year of the great [flood|frost|harvest], <P=person>, <J=job.a>, came to <T=town>.
tale.want
    <P.he> wanted nothing more than [to see the sea|<colour.a> <good> of <P.his> own|a quiet life].
    every <day> <P.he> <doing.past> <place.at>, and nobody knew why.
    although <P.he> was <badtrait>, people [liked|trusted|respected] <P.him>.
    <P.he> was so <goodtrait> that [everyone|even <person>] came to <P.him> for advice.
    because <P.he> had no children, <P.he> told <P.his> stories to <animal.a>.
tale.scene
    one <season> evening, while <P.he> was <doing.ing>, [someone knocked|a stranger came|the lights went out].
    <Q=person-P>, who lived next door, often <doing.past> with <P.him>.
    the children called <P.him> [Owl|the Heron|Old Fox|Snail], but never when <P.he> could hear it.
    after <P.he> had <calm.done>, <P.he> always went [to <spot>|to bed|home by the river].
    there was a rumour that <P.he> had once [been rich|written <book>|been in love with <Q=person-P>].
tale.luck
    then, [on <day>|one morning|when nobody expected it], <P.he> <L=luck.past>.
    it was <season> when <P.he> <L=luck.past>.
tale.say.good
    “[who would have thought it|good things take time],” <P.he> said.
tale.say.bad
    “[it serves me right|that is how it goes],” <P.he> said.
tale.end.good
    from that day on <P.he> [smiled at everyone|was never lonely again|slept soundly].
    the whole town was happy for <P.him>, and <Q=person-P> baked a cake.
    <P.he> was so <gladness> that <P.he> forgot [to lock the door|<P.his> hat|the time].
tale.end.bad
    after that <P.he> was seldom seen <place.at>.
    <P.he> was <sadness>, but <Q=person-P> [brought <P.him> <dish>|made <P.him> laugh again].
    it took <few> years before <P.he> could laugh about it.
gladness
    [happy|relieved|proud|delighted|excited]
sadness
    [sad|disappointed|angry|ashamed]

story.scene
    <scene.open>[ <own>|] <scene.sense> <scene.close>
scene.open
    it is <day>, and <P=person> [gets up early|has the day off|is in a hurry].
    <P=person> is <job.a>, and today <P.he> [has a lot to do|is in a good mood|has time].
scene.close
    in the evening <P.he> [tells <P.his> <relation> about it|<calm.s>|falls asleep at once].
    that is what <P.his> days are like.
    tomorrow <P.he> will [do it again|stay at home|visit <P.his> <relation>].
"""
