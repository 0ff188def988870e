"""Meanings that can be worded in several ways in each language: what paraphrases and translations are made of.

A meaning names its things (without saying them) and then gives its wordings; all wordings of one meaning say the same.
"""

from __future__ import annotations

from functools import cache

MEANINGS = """
liking <~P=person><~X=hobby>
en
    <P> likes <X> very much.
    <P> is very fond of <X>.
    <X> is what <P> enjoys most.
    there is nothing <P> loves more than <X>.
zh
    <P>很喜欢<X>。
    <P>非常爱<X>。
    <P>最大的爱好就是<X>。
    <P>对<X>很着迷。
fondness <~P=person><~Q=person-P>
en
    <P> likes <Q> very much.
    <P> is very fond of <Q>.
    <Q> is very dear to <P>.
zh
    <P>很喜欢<Q>。
    <P>很中意<Q>。
    <P>对<Q>很有好感。
birth <~P=person><~T=town>
en
    <P> was born in <T>.
    <T> is the place where <P> was born.
    <P> came into the world in <T>.
    the birthplace of <P> is <T>.
zh
    <P>出生在<T>。
    <P>的出生地是<T>。
    <P>是在<T>出生的。
    <T>是<P>出生的地方。
work <~P=person><~J=job><~O=organisation>
en
    <P> works as <J.a> at <O>.
    <P> is <J.a> at <O>.
    <O> employs <P> as <J.a>.
zh
    <P>在<O>当<J>。
    <P>是<O>的<J>。
    <O>的<J>是<P>。
gift <~P=person><~Q=person-P><~G=good>
en
    <P> gave <Q> <G.a>.
    <P> gave <G.a> to <Q>.
    <Q> was given <G.a> by <P>.
    <Q> got <G.a> from <P> as a present.
zh
    <P>送给<Q><G.a>。
    <P>送了<G.a>给<Q>。
    <Q>收到了<P>送的<G.a>。
    <P>把<G.a>送给了<Q>。
sky <~T=town><~W=weather><~D=day>
en
    on <D> it will be <W.sky> in <T>.
    in <T> it will be <W.sky> on <D>.
    the forecast says that <T> will be <W.sky> on <D>.
zh
    <D><T><W.sky>。
    <T><D>的天气是<W.sky>。
    天气预报说，<D><T><W.sky>。
heat <~T=town><~H=warm>
en
    the highest temperature in <T> today is <H>.
    today it will not get warmer than <H> in <T>.
    in <T> the temperature reaches <H> at most today.
zh
    <T>今天最高温度<H>。
    今天<T>的气温最高能到<H>。
    <T>今天最热的时候有<H>。
price <~P=person><~G=good><~N=price>
en
    <P> bought <G.a> for <N>.
    <P> paid <N> for <G.a>.
    <G.a> cost <P> <N>.
zh
    <P>花 <N> 元买了<G.a>。
    <P>买<G.a>用了 <N> 元。
    <P>的<G>是 <N> 元买来的。
encounter <~P=person><~Q=person-P><~L=place>
en
    <P> met <Q> <L.at>.
    <P> ran into <Q> <L.at>.
    <L.at>, <P> came across <Q>.
zh
    <P><L.at>遇见了<Q>。
    <L.at>，<P>碰到了<Q>。
    <P><L.at>碰见了<Q>。
moving <~P=person><~T=town><~U=town-T>
en
    <P> moved from <T> to <U>.
    <P> left <T> and went to live in <U>.
    <P>, who used to live in <T>, now lives in <U>.
zh
    <P>从<T>搬到了<U>。
    <P>离开<T>，搬去了<U>。
    <P>以前住在<T>，现在住在<U>。
victory <~A=team><~B=team-A>
en
    <A> beat <B>.
    <B> lost to <A>.
    <B> were beaten by <A>.
    <A> won against <B>.
zh
    <A>战胜了<B>。
    <B>输给了<A>。
    <B>被<A>打败了。
    <A>赢了<B>。
damage <~P=person><~Q=person-P><~G=good>
en
    <P> broke <Q>'s <G>.
    <Q>'s <G> was broken by <P>.
    it was <P> who broke <Q>'s <G>.
zh
    <P>弄坏了<Q>的<G>。
    <P>把<Q>的<G>弄坏了。
    <Q>的<G>被<P>弄坏了。
    弄坏<Q>的<G>的人是<P>。
date <~E=event><~T=town><~D=day>
en
    the <E> in <T> takes place on <D>.
    <T> holds its <E> on <D>.
    on <D> there is <E.a> in <T>.
zh
    <T>的<E><D>举行。
    <D><T>举办<E>。
    <T><D>有<E.a>。
taste <~P=person><~F=dish>
en
    <P> thinks the <F> <F.is> delicious.
    <P> finds the <F> very tasty.
    in <P>'s opinion the <F> <F.is> wonderful.
zh
    <P>觉得<F>很好吃。
    <P>认为<F>味道好极了。
    在<P>看来，<F>非常美味。
lesson <~P=person><~Q=person-P><~S=subject>
en
    <P> teaches <Q> <S>.
    <Q> learns <S> from <P>.
    <P> is <Q>'s <S> teacher.
zh
    <P>教<Q><S>。
    <Q>跟<P>学<S>。
    <P>是<Q>的<S>老师。
branch <~C=company><~T=town>
en
    <C> has opened a new branch in <T>.
    a new branch of <C> has opened in <T>.
    in <T> there is now a branch of <C>.
zh
    <C>在<T>开了一家新分店。
    <C>的新分店在<T>开张了。
    <T>有了<C>的新分店。
writing <~P=person><~Q=person-P>
en
    <P> wrote <Q> a letter.
    <P> sent a letter to <Q>.
    <Q> received a letter from <P>.
zh
    <P>给<Q>写了一封信。
    <P>寄给<Q>一封信。
    <Q>收到了<P>的来信。
age <~P=person><~Q=person-P>
en
    <P> is younger than <Q>.
    <Q> is older than <P>.
    <Q> was born before <P>.
zh
    <P>比<Q>年轻。
    <Q>比<P>年纪大。
    <P>的年龄比<Q>小。
author <~P=person><~B=book>
en
    <P> wrote the novel <B>.
    the novel <B> is by <P>.
    <P> is the author of <B>.
zh
    <P>写了小说《<B>》。
    小说《<B>》是<P>写的。
    《<B>》的作者是<P>。
waiting <~P=person><~Q=person-P><~L=place><~N=few>
en
    <P> waited <N> hours for <Q> <L.at>.
    for <N> hours <P> waited <L.at> for <Q>.
    <Q> kept <P> waiting <L.at> for <N> hours.
zh
    <P><L.at>等了<Q><N>个小时。
    <Q>让<P><L.at>等了<N>个小时。
    为了等<Q>，<P><L.at>站了<N>个小时。
"""


@cache
def coherence_meanings() -> dict[str, dict[str, str]]:
    """Name → its parts: `things` (the silent picks), and the wordings of each language as the lines of a rule."""
    found: dict[str, dict[str, str]] = {}
    here: dict[str, str] = {}
    language = ""
    for line in MEANINGS.strip().splitlines():
        if line in ("en", "zh"):
            language = line
        elif line.startswith(" "):
            here[language] = here.get(language, "") + line + "\n"
        else:
            name, things = line.split(" ")
            here = found[name] = {"things": things}
    return found


def rules(language: str) -> str:
    """Each meaning as a rule `things.NAME`, which says nothing, and a rule `meaning.NAME`."""
    return "\n".join(
        f"things.{name}\n    {parts['things']}\nmeaning.{name}\n{parts[language]}"
        for name, parts in coherence_meanings().items()
    )
