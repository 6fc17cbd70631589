"""Rules that were stated to an agent, where a session hung on one of them.

What a customer wants is no rule; what the customer was refused because of may be one. A rule is
taken from where it was stated, never from what somebody claims that it says; and only together
with a request for the very thing that it is about. That an agent refused something, in a task that
then failed, shows nothing but what the agent believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.calls import refusal
from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.matters import acts, fits_best, objects, of_rule, rarity, stems
from reasonbank.learn.rules.records import record
from reasonbank.learn.rules.task import first_of, gist, sentences
from reasonbank.learn.session import SYSTEM, Call, Entry, Session, Turn
from reasonbank.model import Outcome
from reasonbank.safety.patterns import compile

LONGEST = 700
MOST_KNOWN = 6
MOST_CALLS = 40
"""So many calls before one may tell what it is about."""
MOST_TURNS = 40
"""So many turns back a request may be that something answers."""
MOST_TRIED = 20
"""Of so many refusals that rest on a rule it is looked for what they answer."""
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
_AGREEING = compile(r"(?i)\s*(?:yes|yeah|ok|okay|correct|please (?:proceed|go ahead))\b")
_BULLET = compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    heading: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stated:
    """All that was stated: the rules in it, and every line, for a line may allow what one asks."""

    rules: tuple[_Rule, ...]
    lines: tuple[tuple[str, frozenset[str]], ...]
    """Each with what it is about."""
    weights: Mapping[str, float]


def policies(session: Session, entries: Sequence[Entry], told: Outcome | None) -> Iterator[Finding]:
    stated = _stated(e.text for e in entries if isinstance(e, Turn) and e.role == SYSTEM)
    if not stated.rules:
        return
    outcome = verdict(session, told=told).outcome
    if outcome is Outcome.FAILURE:
        # What the agent refused there may be the very mistake: it shows no rule.
        yield from _broken(session, entries, stated)
    elif found := _decisive(entries, stated, outcome):
        yield _held(session, found, outcome)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A rule, its sentence, the request that it decided, and where that was told."""

    rule: _Rule
    sentence: str
    request: str
    number: int


def _decisive(
    entries: Sequence[Entry], stated: _Stated, outcome: Outcome | None
) -> _Decided | None:
    """The rule that a refusal rests on; where the agent had it right, by the words around too."""
    succeeded = outcome is Outcome.SUCCESS
    least = (LEAST, *LEAST_VERIFIED) if succeeded else (LEAST,)
    for wide in (False, True) if succeeded else (False,):
        said = {s: e.number for e in entries for s in islice(_refusals(e, wide), MOST)}
        resting = [
            (*found, refused, place)
            for refused, place in list(said.items())[-MOST:]
            if (found := _resting_on(refused, stated, least))
        ]
        resting.sort(key=lambda each: -each[0])
        for _, rule, sentence, refused, place in resting[:MOST_TRIED]:
            matter = of_rule(rule.heading, _LABEL.sub("", sentence)) & acts(refused)
            before = [e for e in entries if e.number < place]
            if request := _asked(before, rule, matter, stated):
                return _Decided(rule, sentence, request, place)
    return None


def _asked(
    entries: Sequence[Entry], rule: _Rule, matter: frozenset[str], stated: _Stated
) -> str | None:
    """The latest request for what the rule speaks of, if it speaks of it more than others do."""
    about = objects(_line(rule))
    turns = [e.text for e in entries if isinstance(e, Turn) and e.by_user]
    turns = [turn for turn in turns if not _AGREEING.match(turn)]
    for turn in reversed(turns[-MOST_TURNS:]):
        wanted = " ".join(s for s in sentences(turn) if acts(s) & matter)
        if objects(turn) & about and wanted:
            rivals = [line for line, its in stated.lines if its & matter]
            return turn if fits_best(wanted, _line(rule), rivals, stated.weights) else None
    return None


def _stated(texts: Iterable[str]) -> _Stated:
    rules: list[_Rule] = []
    lines: list[tuple[str, frozenset[str]]] = []
    for rule in islice((rule for text in texts for rule in _rules(text)), MOST):
        lines.append((_line(rule), of_rule(rule.heading, rule.text)))
        if rule.sentences:
            rules.append(rule)
    return _Stated(tuple(rules), tuple(lines), rarity([line for line, _ in lines]))


def _line(rule: _Rule) -> str:
    return f"{rule.heading} {rule.text}"


def _rules(text: str) -> Iterator[_Rule]:
    """Line by line; what binds nobody has no sentences."""
    heading = ""
    for line in text.splitlines():
        if headed := _HEADING.match(line.strip()[:200]):
            heading = headed[1].strip()
            continue
        said = _BULLET.sub("", line).strip()
        binding = tuple(s for s in sentences(said[:4_000]) if _binds(s))
        if len(said.split()) >= 5:
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
    said: str, stated: _Stated, least: Sequence[tuple[int, float]]
) -> tuple[float, _Rule, str] | None:
    """The rule that says what was said, by the words that few other rules have."""
    names = stems(said)
    best: tuple[float, _Rule, str] | None = None
    for rule in stated.rules:
        for sentence in rule.sentences:
            its = stems(_LABEL.sub("", sentence))
            shared = names & its
            whole = sum(stated.weights.get(name, 1.0) for name in its) or 1.0
            part = sum(stated.weights.get(name, 1.0) for name in shared)
            covered = part / whole
            enough = any(len(shared) >= most and covered >= share for most, share in least)
            if enough and (best is None or part * covered > best[0]):
                best = (part * covered, rule, sentence)
    return best


# What a tool does not check, and the rule that the agent is told to check itself.

_UNCHECKED = compile(
    r"(?i)\b(?:api|tool|system|function|endpoint|database)s?\s+(?:does|do|will|can)(?: not|n't)\s+"
    r"(?:check|verify|enforce|validate)"
)
_FORBIDS = compile(r"(?i)\b(?:cannot|can not|must not|may not|not allowed|never|not possible)\b")
_ONLY = compile(r"(?i)\b(?:if and only if|only if|only when|unless)\b")


def _broken(session: Session, entries: Sequence[Entry], stated: _Stated) -> Iterator[Finding]:
    """What was done in a task that failed, if a rule names this very case that no tool checks."""
    made = [e for e in entries if isinstance(e, Call) and refusal(e) is None and e.answer.strip()]
    unchecked = [rule for rule in stated.rules if _UNCHECKED.search(rule.text)]
    for place in reversed(range(max(0, len(made) - MOST), len(made))):
        call = made[place]
        before = [e for e in entries if e.number < call.number]
        for rule in _governing(call, unchecked):
            known = _known(made[max(0, place - MOST_CALLS) : place + 1], rule)
            if not any(_against(sentence, known) for sentence in rule.sentences):
                continue
            if request := _asked(before, rule, acts(_spoken(call.tool)), stated):
                yield _unchecked(session, rule, call, known, request)
                return


def _spoken(name: str) -> str:
    return name.lower().replace("-", " ").replace("_", " ")


def _against(sentence: str, known: Sequence[tuple[str, str]]) -> bool:
    """Whether it names this very case, and the condition for it, if there is one, is not met."""
    if not any(_names(sentence, value) for _, value in known):
        return False
    if _ONLY.search(sentence):
        unmet = [name for name, value in known if value.lower() in ("no", "false")]
        return any(stems(_spoken(name)) & stems(sentence) for name in unmet)
    return bool(_FORBIDS.search(sentence))


def _names(sentence: str, value: str) -> bool:
    """`basic_economy` is named by what it is called; one word alone may be any."""
    said = _spoken(value)
    return " " in said and said in sentence.lower()


def _governing(call: Call, rules: Sequence[_Rule]) -> list[_Rule]:
    """The rules about what a tool of this name does, and about what it does it to."""
    does, things = acts(_spoken(call.tool)), objects(_spoken(call.tool))
    return [
        rule
        for rule in rules
        if does & acts(f"{rule.heading} {' '.join(rule.text.split()[:5])}")
        and things
        and things <= stems(f"{rule.heading} {rule.text}")
    ]


_ID = compile(r"(?i)(?:id|number|code|key)s?\z")
_WHEN = compile(r"(?i)\b(?:hours?|days?|weeks?)\b")
_DATED = compile(r"(?i)created|booked|date|_at\z|\btime")


def _known(calls: Sequence[Call], rule: _Rule) -> list[tuple[str, str]]:
    """What the tools had said of the thing that the last call is about, where the rule asks."""
    *before, last = calls
    given = record(last.arguments)
    ids = [v for n, v in given.items() if isinstance(v, str) and len(v) > 3 and _ID.search(n)]
    its = stems(rule.text)
    for call in reversed(before):
        its_record = record(call.answer)
        if not any(value in ids for value in its_record.values() if isinstance(value, str)):
            continue
        return [
            (name, str(value))
            for name, value in its_record.items()
            if isinstance(value, str | int | bool) and value not in ids
            # What the call itself changes is another matter than what the case is.
            and given.get(name, value) == value
            and (stems(name.replace("_", " ")) & its or stems(str(value).replace("_", " ")) & its
                 or (_WHEN.search(rule.text) and _DATED.search(name)))
        ][:MOST_KNOWN]  # fmt: skip
    return []


def _unchecked(
    session: Session, rule: _Rule, call: Call, facts: Sequence[tuple[str, str]], question: str
) -> Finding:
    about = rule.heading or "in general"
    wanted = _wanted(session, question)
    listed = "; ".join(f"{name} = {short(value, 40)}" for name, value in facts)
    known = f" Of the case the tools had said: {listed}." if listed else ""
    given = [v for v in record(call.arguments).values() if isinstance(v, str) and len(v) > 40]
    why = f" It was called with: {short(_nameless(given[0]), 240)}" if given else ""
    return noted(
        session, "unchecked", call.number, call.number, weight=0.6,
        title=f"Before `{call.tool}`, the policy ({about}): {short(rule.text, 140)}",
        description=f"Before `{call.tool}` is called, when somebody asks for something like this: "
        f"{wanted}",
        content=f"The stated policy says ({about}): {short(rule.text, LONGEST)}\n\n"
        f"`{call.tool}` was called when somebody said: {wanted}{known}{why}\nThe call was taken, "
        f"and the task was checked and failed.\n\nCheck each condition of it yourself before "
        f"`{call.tool}`: the tool takes the call whether the rule allows it or not.\n\n"
        f"Task: {gist(session)}",
        outcome=Outcome.FAILURE,
        tags=("policy", call.tool),
    )  # fmt: skip


_NAMING = compile(
    r"(?i)^(?:(?:sure|of course|certainly|yes|okay|well)\b[,.! ]{1,3})?"
    r"(?:my|the|it is|it's|here)\b.{0,40}\b(?:id|number|name|e-?mail)\b"
)
_IDENTIFIER = compile(r"\b(?:[A-Za-z_]{1,30}\d\w{0,30}|\d{1,10}[A-Za-z_]\w{1,30}|[A-Z]{5,12})\b")
_ORDINAL = compile(r"\d{1,2}(?:st|nd|rd|th)")


def _nameless(text: str) -> str:
    """Without the numbers and names that only this case has; the 22nd is a day."""
    return _IDENTIFIER.sub(lambda m: m[0] if _ORDINAL.fullmatch(m[0]) else "<id>", text)


def _wanted(session: Session, question: str) -> str:
    """What was asked for; by whom is nobody's business."""
    kept = [s for s in sentences(question) if not _NAMING.search(s) and len(s.split()) > 2]
    return first_of(_nameless(" ".join(kept)), 240) or gist(session, 240)


def _held(session: Session, decided: _Decided, outcome: Outcome | None) -> Finding:
    rule = decided.rule
    about = f"{rule.heading}: " if rule.heading else ""
    seen = (
        "The agent held to it, and the task was checked and succeeded."
        if outcome is Outcome.SUCCESS
        else "Nothing shows how the task ended."
    )
    wanted = _wanted(session, decided.request)
    return noted(
        session, "policy", decided.number, decided.number, weight=0.7,
        title=f"Policy, {about}{decided.sentence}",
        description=f"When somebody asks for something like this: {wanted}",
        content=f"The stated policy says ({rule.heading or 'in general'}): "
        f"{short(rule.text, LONGEST)}\n\nIt decided what could be done when somebody said: "
        f"{wanted}\n\nTask: {gist(session)}\n{seen}",
        outcome=outcome or Outcome.MIXED,
        tags=("policy",),
    )  # fmt: skip
