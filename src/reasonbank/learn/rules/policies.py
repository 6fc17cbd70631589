"""Rules that were stated to an agent, where a session hung on one of them.

What a customer wants is no rule; what the customer was refused because of may be one. A rule is
taken from where it was stated, never from what somebody claims that it says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import log
from typing import Any

from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.calls import refusal
from reasonbank.learn.rules.corrections import names_in
from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.task import first_of, gist, sentences
from reasonbank.learn.session import SYSTEM, Call, Entry, Session, Turn
from reasonbank.model import Outcome
from reasonbank.safety.patterns import compile

_words = str.split

LONGEST = 700
LONGEST_RECORD = 20_000
MOST_KNOWN = 6
MOST_CALLS = 40
"""So many calls before one may tell what it is about."""
MOST = 200
"""So many rules, and so many different refusals, are compared."""
LEAST = (4, 0.5)
"""So many words of a rule must be those of the refusal, and so much of what is its own."""
LEAST_VERIFIED = ((5, 0.33), (3, 0.6))
"""The same where the task is known to have succeeded: then the agent had the rule right."""

_BINDING = compile(
    r"(?i)\b(?:must|must not|shall|cannot|can not|can only|may not|only if|not allowed|never|"
    r"always|at most|at least|do not|should not|should only|needs? to|(?:are|is) required|"
    r"not possible|but not|only if)\b"
)
_REFUSING = compile(
    r"(?i)\b(?:cannot|can't|can not|unable|not (?:able|possible|allowed|eligible|permitted)|"
    r"not allow|isn't possible|polic(?:y|ies)|only (?:if|be)|not meet|won't be able|but not)\b"
)
_POINTING = compile(r"(?:This|That|It|These|They)\s")
_LABEL = compile(r"^(?:[A-Z][\w-]*(?: [\w-]+){0,4}):\s+")
_HEADING = compile(r"^#{1,5}\s*(.{1,80})$")
_BULLET = compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    heading: str
    sentences: tuple[str, ...]


def policies(session: Session, entries: Sequence[Entry], told: Outcome | None) -> Iterator[Finding]:
    stated = [e.text for e in entries if isinstance(e, Turn) and e.role == SYSTEM]
    rules = [rule for text in stated for rule in _rules(text)][:MOST]
    if not rules:
        return
    rarity = _rarity(rules)
    outcome = verdict(session, told=told).outcome
    found = _decisive(entries, rules, rarity, outcome)
    if found:
        rule, sentence, number = found
        yield _held(session, rule, sentence, (number, _asked(entries[:number], rule)), outcome)
    elif outcome is Outcome.FAILURE:
        yield from _broken(session, entries, rules)


def _decisive(
    entries: Sequence[Entry], rules: Sequence[_Rule], rarity: Mapping[str, float],
    outcome: Outcome | None,
) -> tuple[_Rule, str, int] | None:  # fmt: skip
    """The rule that a refusal rests on; where the agent had it right, by the words around too."""
    succeeded = outcome is Outcome.SUCCESS
    least = (LEAST, *LEAST_VERIFIED) if succeeded else (LEAST,)
    for wide in (False, True) if succeeded else (False,):
        best: tuple[float, _Rule, str, int] | None = None
        said = {s: e.number for e in entries for s in islice(_refusals(e, wide), MOST)}
        for refused, place in list(said.items())[-MOST:]:
            found = _resting_on(refused, rules, rarity, least)
            if found and (best is None or found[0] > best[0]):
                best = (*found, place)
        if best:
            return best[1:]
    return None


def _asked(entries: Sequence[Entry], rule: _Rule) -> str:
    """What the user said that the rule speaks of."""
    turns = [e.text for e in entries if isinstance(e, Turn) and e.by_user]
    its = _stems(rule.text)
    best = max(range(len(turns)), key=lambda n: (len(_stems(turns[n]) & its), n), default=None)
    return turns[best] if best is not None else ""


def _rules(text: str) -> Iterator[_Rule]:
    heading = ""
    for line in text.splitlines():
        if headed := _HEADING.match(line.strip()[:200]):
            heading = headed[1].strip()
            continue
        said = _BULLET.sub("", line).strip()
        binding = tuple(s for s in sentences(said[:4_000]) if _binds(s))
        if binding and len(said.split()) >= 5:
            yield _Rule(said, heading, binding)


def _binds(sentence: str) -> bool:
    """What begins with `this` says nothing on its own."""
    return bool(_BINDING.search(sentence)) and not _POINTING.match(sentence)


def _refusals(entry: Entry, wide: bool) -> Iterator[str]:
    """What a tool refused, and what the agent did; ``wide``: with the sentences around it."""
    if isinstance(entry, Call):
        if said := refusal(entry):
            yield said
    elif isinstance(entry, Turn) and not entry.by_user and not entry.role:
        told = sentences(entry.text)
        for place, sentence in enumerate(told):
            if _REFUSING.search(sentence):
                yield " ".join(told[max(0, place - 1) : place + 2]) if wide else sentence


def _resting_on(
    said: str,
    rules: Sequence[_Rule],
    rarity: Mapping[str, float],
    least: Sequence[tuple[int, float]],
) -> tuple[float, _Rule, str] | None:
    """The rule that says what was said, by the words that few other rules have."""
    names = _stems(said)
    best: tuple[float, _Rule, str] | None = None
    for rule in rules:
        for sentence in rule.sentences:
            its = _stems(_LABEL.sub("", sentence))
            shared = names & its
            whole = sum(rarity[name] for name in its) or 1.0
            part = sum(rarity[name] for name in shared)
            covered = part / whole
            enough = any(len(shared) >= most and covered >= share for most, share in least)
            if enough and (best is None or part * covered > best[0]):
                best = (part * covered, rule, sentence)
    return best


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    """Cancel, cancelled and cancellation are one word here; that something binds is none."""
    return frozenset(_ENDING.sub("", name)[:5] for name in names_in(text) - _BINDING_WORDS)


_BINDING_WORDS = frozenset(_words("cannot may shall unable policy rule allowed possible"))
_ENDING = compile(r"(?:ation|ions?|ing|ed|e?s|e|y)\z")


def _rarity(rules: Sequence[_Rule]) -> dict[str, float]:
    found = Counter(name for rule in rules for s in rule.sentences for name in _stems(s))
    most = sum(len(rule.sentences) for rule in rules)
    return {name: log(1 + most / count) for name, count in found.items()}


# What a tool does not check, and the rule that the agent is told to check itself.

_UNCHECKED = compile(
    r"(?i)\b(?:api|tool|system|function|endpoint|database)s?\s+(?:does|do|will|can)(?: not|n't)\s+"
    r"(?:check|verify|enforce|validate)"
)
_ALIKE = (
    frozenset(_words("update modify change edit")),
    frozenset(_words("book create order")),
    frozenset(_words("cancel delete remove revoke")),
    frozenset(_words("transfer escalate hand handover")),
)
_ONLY = compile(r"(?i)\b(?:if and only if|only if|only when|unless)\b")


def _broken(
    session: Session, entries: Sequence[Entry], rules: Sequence[_Rule]
) -> Iterator[Finding]:
    """What was done in a task that failed, if a rule binds it that no tool checks."""
    made = [e for e in entries if isinstance(e, Call) and refusal(e) is None and e.answer.strip()]
    best: tuple[int, _Rule, Call, list[tuple[str, str]]] | None = None
    for place, call in enumerate(made[-MOST:], max(0, len(made) - MOST)):
        for rule in _governing(call, rules):
            known = _known(made[max(0, place - MOST_CALLS) : place + 1], rule)
            telling = sum(_restricts(rule, *fact) for fact in known)
            if not _UNCHECKED.search(rule.text) and _ONLY.search(rule.text):
                telling = 1
            if telling and (best is None or telling >= best[0]):
                best = (telling, rule, call, known)
    if best:
        _, rule, call, known = best
        asked = _asked(entries[: call.number], rule)
        yield _unchecked(session, rule, call, known, asked)


def _governing(call: Call, rules: Sequence[_Rule]) -> list[_Rule]:
    words = call.tool.lower().replace("-", "_").split("_")
    return [rule for rule in rules if _governs(rule, words)]


def _governs(rule: _Rule, words: Sequence[str]) -> bool:
    """Whether a rule is about what a tool of this name does, and about what it does it to."""
    verb, *things = words
    verbs = next((group for group in _ALIKE if verb in group), frozenset((verb,))) - set(things)
    begins = _stems(f"{rule.heading} {' '.join(rule.text.split()[:5])}")
    named = begins | _stems(rule.text)
    does = any(_stems(each) <= begins for each in verbs if _stems(each))
    return does and bool(things) and all(_stems(each) <= named for each in things)


_WHEN = compile(r"(?i)\b(?:hours?|days?|weeks?)\b")
_DATED = compile(r"(?i)created|booked|date|_at\z|\btime")


def _restricts(rule: _Rule, name: str, value: str) -> bool:
    """Whether the rule names this very case: `basic economy`, or that there is no insurance."""
    said = value.replace("_", " ").lower()
    if said in ("no", "false"):
        return bool(_stems(name.replace("_", " ")) & _stems(" ".join(rule.sentences)))
    return " " in said and said in " ".join(rule.sentences).lower()


def _known(calls: Sequence[Call], rule: _Rule) -> list[tuple[str, str]]:
    """What the tools had said of the thing that the last call is about, where the rule asks."""
    *before, last = calls
    ids = [v for v in _record(last.arguments).values() if isinstance(v, str) and len(v) > 3]
    its = _stems(rule.text)
    for call in reversed(before):
        record = _record(call.answer)
        if not any(value in ids for value in record.values() if isinstance(value, str)):
            continue
        return [
            (name, str(value))
            for name, value in record.items()
            if isinstance(value, str | int | bool) and value not in ids
            and (_stems(name.replace("_", " ")) & its or _stems(str(value).replace("_", " ")) & its
                 or (_WHEN.search(rule.text) and _DATED.search(name)))
        ][:MOST_KNOWN]  # fmt: skip
    return []


def _record(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text[:LONGEST_RECORD])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _unchecked(
    session: Session, rule: _Rule, call: Call, facts: Sequence[tuple[str, str]], question: str
) -> Finding:
    about = rule.heading or "in general"
    wanted = _wanted(session, question)
    listed = "; ".join(f"{name} = {short(value, 40)}" for name, value in facts)
    known = f" Of the case the tools had said: {listed}." if listed else ""
    given = [v for v in _record(call.arguments).values() if isinstance(v, str) and len(v) > 40]
    why = f" It was called with: {short(_IDENTIFIER.sub('<id>', given[0]), 240)}" if given else ""
    guidance = (
        f"Check each condition of it yourself before `{call.tool}`: the tool takes the call "
        "whether the rule allows it or not."
        if _UNCHECKED.search(rule.text)
        else f"See first whether the request, or a part of it, can be met without `{call.tool}`."
    )
    return noted(
        session, "unchecked", call.number, call.number, weight=0.6,
        title=f"Before `{call.tool}`, the policy ({about}): {short(rule.text, 140)}",
        description=f"Before `{call.tool}` is called, when somebody asks for something like this: "
        f"{wanted}",
        content=f"The stated policy says ({about}): {short(rule.text, LONGEST)}\n\n"
        f"`{call.tool}` was called when somebody said: {wanted}{known}{why}\nThe call was taken, "
        f"and the task was checked and failed.\n\n{guidance}\n\nTask: {gist(session)}",
        outcome=Outcome.FAILURE,
        tags=("policy", call.tool),
    )  # fmt: skip


_NAMING = compile(
    r"(?i)^(?:(?:sure|of course|certainly|yes|okay|well)\b[,.! ]{1,3})?"
    r"(?:my|the|it is|it's|here)\b.{0,40}\b(?:id|number|name|e-?mail)\b"
)
_IDENTIFIER = compile(r"\b(?:[A-Za-z_]{1,30}\d\w{0,30}|\d{1,10}[A-Za-z_]\w{1,30})\b")


def _wanted(session: Session, question: str) -> str:
    """What was asked for; by whom is nobody's business."""
    kept = [s for s in sentences(question) if not _NAMING.search(s) and len(s.split()) > 2]
    return first_of(_IDENTIFIER.sub("<id>", " ".join(kept)), 240) or gist(session, 240)


_SEEN = {
    Outcome.SUCCESS: "The agent held to it, and the task was checked and succeeded.",
    Outcome.FAILURE: "The task was checked and failed: read the whole rule before you act on it.",
}


def _held(
    session: Session, rule: _Rule, sentence: str, asked: tuple[int, str], outcome: Outcome | None
) -> Finding:
    number, question = asked
    about = f"{rule.heading}: " if rule.heading else ""
    seen = _SEEN.get(outcome, "Nothing shows how the task ended.") if outcome else ""
    wanted = _wanted(session, question)
    return noted(
        session, "policy", number, number, weight=0.7,
        title=f"Policy, {about}{sentence}",
        description=f"When somebody asks for something like this: {wanted}",
        content=f"The stated policy says ({rule.heading or 'in general'}): "
        f"{short(rule.text, LONGEST)}\n\nIt decided what could be done when somebody said: "
        f"{wanted}\n\nTask: {gist(session)}\n{seen}".strip(),
        outcome=outcome or Outcome.MIXED,
        tags=("policy",),
    )  # fmt: skip
