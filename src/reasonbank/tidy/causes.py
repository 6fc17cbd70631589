"""What leads to what, where a memory says so: "retrying a charge causes duplicate charges".

No model is asked. The words after such a phrase name an effect, or a cause; a memory that is
about them, by its title or by the error that it warns of, is the other end of the link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reasonbank.model import Link, LinkType, Memory
from reasonbank.safety.patterns import compile
from reasonbank.search.sentences import sentences, telling

ENOUGH = 0.6
"""The share of the words of a cause or an effect that a memory about it has."""
FEWEST = 2
MOST = 2
"""Links of this kind that one memory begins or ends, the strongest."""
COMMON = 500
"""A word that so many memories are about tells of none."""

_EFFECT = compile(
    r"(?i)\b(?:causes?|caused|leads? to|led to|results? in|resulted in|triggers?|triggered|"
    r"ends? in|ended in|verursacht|provoque|provoca|causa)\b"
)
_CAUSE = compile(
    r"(?i)\b(?:(?:caused|triggered) by|because of|due to|(?:results?|comes|stems) from|"
    r"verursacht durch|wegen|caus[ée]e? par|causado por|debido a)\b"
)
_DENIED = compile(r"(?i)\b(?:not|never|no longer|cannot|without|n't|nicht|kein|jamais|nunca)\b")
_CLAUSE = compile(r"[,;:()]|\s[—–-]\s")


def found(memories: Sequence[Memory], *, merged: Mapping[str, str]) -> tuple[Link, ...]:
    """From cause to effect. Those that will be one memory need no link."""
    about = [telling(_subject(memory)) for memory in memories]
    errors = [m.error_context.error_type.casefold() if m.error_context else "" for m in memories]
    places: dict[str, list[int]] = {}
    for place, words in enumerate(about):
        for word in (*words, *filter(None, [errors[place]])):
            places.setdefault(word, []).append(place)

    def spoken_of(clause: str) -> Iterator[tuple[int, float]]:
        words = telling(clause)
        named = {word.strip("`'\".!?").casefold() for word in clause.split()}
        for word in named & places.keys():
            yield from ((place, 1.0) for place in places[word] if errors[place] == word)
        if len(words) < FEWEST:
            return
        near = {p for w in words if len(some := places.get(w, ())) <= COMMON for p in some}
        for place in near:
            share = len(words & about[place]) / len(words)
            if share >= ENOUGH:
                yield place, share

    strengths: dict[tuple[str, str], float] = {}
    for memory in memories:
        for clause, is_effect in _clauses(memory):
            for place, strength in spoken_of(clause):
                ends = (memory.id, memories[place].id)
                source, target = ends if is_effect else ends[::-1]
                if source != target and (
                    source not in merged or merged[source] != merged.get(target)
                ):
                    pair = (source, target)
                    strengths[pair] = max(strength, strengths.get(pair, 0.0))
    return _strongest(strengths)


def _strongest(strengths: Mapping[tuple[str, str], float]) -> tuple[Link, ...]:
    result = []
    drawn: dict[str, int] = {}
    for (source, target), strength in sorted(strengths.items(), key=lambda s: (-s[1], s[0])):
        if max(drawn.get(source, 0), drawn.get(target, 0)) < MOST and (
            strengths.get((target, source), 0.0) < strength
        ):
            drawn[source], drawn[target] = drawn.get(source, 0) + 1, drawn.get(target, 0) + 1
            result.append(
                Link(
                    source=source, target=target, type=LinkType.CAUSES, strength=round(strength, 3)
                )
            )
    return tuple(result)


def _subject(memory: Memory) -> str:
    error = memory.error_context
    return f"{memory.title} {error.error_type} {error.failure_pattern}" if error else memory.title


def _clauses(memory: Memory) -> Iterator[tuple[str, bool]]:
    """What a memory names as an effect, or else as a cause, of what it is about."""
    for text in dict.fromkeys((memory.title, memory.description, memory.content)):
        for sentence in sentences(text):
            for pattern, is_effect in ((_CAUSE, False), (_EFFECT, True)):
                said = pattern.search(sentence)
                if said is None:
                    continue
                if not _DENIED.search(sentence[max(0, said.start() - 20) : said.start()]):
                    yield _CLAUSE.split(sentence[said.end() :], 1)[0], is_effect
                break
