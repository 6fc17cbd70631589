"""Rules that were stated to an agent, where a session hung on one of them.

What a customer wants is no rule; what the customer was refused because of may be one. A rule is
taken from where it was stated, never from what somebody claims that it says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import log

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
MOST = 200
"""So many rules, and so many different refusals, are compared."""
LEAST = (4, 0.5)
"""So many words of a rule must be those of the refusal, and so much of what is its own."""
LEAST_VERIFIED = (5, 0.33)
"""The same where the task is known to have succeeded: then the agent had the rule right."""

_BINDING = compile(
    r"(?i)\b(?:must|must not|shall|cannot|can not|can only|may not|only if|not allowed|never|"
    r"always|at most|at least|do not|should not|should only|needs? to|(?:are|is) required|"
    r"not possible)\b"
)
_REFUSING = compile(
    r"(?i)\b(?:cannot|can't|can not|unable|not (?:able|possible|allowed|eligible|permitted)|"
    r"not allow|isn't possible|polic(?:y|ies)|only (?:if|be)|not meet|won't be able)\b"
)
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
    least = LEAST_VERIFIED if outcome is Outcome.SUCCESS else LEAST
    best: tuple[float, _Rule, str, int] | None = None
    said = {s: e.number for e in entries for s in islice(_refusals(e), MOST)}
    for refused, place in list(said.items())[-MOST:]:
        found = _resting_on(refused, rules, rarity, least)
        if found and (best is None or found[0] > best[0]):
            best = (*found, place)
    if best:
        _, rule, sentence, number = best
        asked = next((e.text for e in reversed(entries[:number])
                      if isinstance(e, Turn) and e.by_user), session.task)  # fmt: skip
        yield _held(session, rule, sentence, (number, asked), outcome)


def _rules(text: str) -> Iterator[_Rule]:
    heading = ""
    for line in text.splitlines():
        if headed := _HEADING.match(line.strip()[:200]):
            heading = headed[1].strip()
            continue
        said = _BULLET.sub("", line).strip()
        binding = tuple(s for s in sentences(said[:4_000]) if _BINDING.search(s))
        if binding and len(said.split()) >= 5:
            yield _Rule(said, heading, binding)


def _refusals(entry: Entry) -> Iterator[str]:
    """What a tool refused, and what the agent did."""
    if isinstance(entry, Call):
        if said := refusal(entry):
            yield said
    elif isinstance(entry, Turn) and not entry.by_user and not entry.role:
        yield from filter(_REFUSING.search, sentences(entry.text))


def _resting_on(
    said: str, rules: Sequence[_Rule], rarity: Mapping[str, float], least: tuple[int, float]
) -> tuple[float, _Rule, str] | None:
    """The rule that says what was said, by the words that few other rules have."""
    names = _stems(said)
    best: tuple[float, _Rule, str] | None = None
    for rule in rules:
        for sentence in rule.sentences:
            its = _stems(sentence)
            shared = names & its
            whole = sum(rarity[name] for name in its) or 1.0
            part = sum(rarity[name] for name in shared)
            covered = part / whole
            enough = (len(shared) >= LEAST[0] and covered >= LEAST[1]) or (
                len(shared) >= least[0] and covered >= least[1]
            )
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
    wanted = first_of(question, 240)
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
