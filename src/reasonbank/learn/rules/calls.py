"""Tools that refused a call: what they want, and what was changed until they took it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.corrections import names_in
from reasonbank.learn.rules.failure import stable
from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Call, Entry, Session
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

FAR = 16
STUBBORN = 3
LONGEST = 300

_FAILED = compile(
    r"(?is)^\s*(?:\{\s*\"(?:error|exception)\"\s*:|"
    r"(?:[\w.]*(?:Error|Exception)|error|failed|failure|refused|denied)\b)"
    r"[\s:.!-]*(?P<said>.{3,})"
)
_WRAPPED = compile(
    r"(?is)^Error when executing tool \S+ with arguments .{0,900}?\}: (?:\w+: )?(.{3,})"
)
# It says that something is not there, or is slow: with the next data it is.
_NOT_THERE = compile(
    r"(?i)\bnot found\b|\bno (?:results?|such|match\w*|page|flights?|items?|records?)\b|"
    r"not available|unavailable|does(?: not|n't) exist|\b404\b|\b50\d\b|tim(?:ed|e) ?out|"
    r"not (?:in list|archived)|no longer|unknown (?:user|id)|cannot be found|unable to find|"
    r"connection|not enough|insufficient"
)
# It says that the tool itself has a defect: nobody learns from that how to call it.
_BROKEN = compile(
    r"(?i)local variable|NoneType|object has no attribute|index out of range|division by zero|"
    r"internal (?:server )?error|not defined"
)
_ADVICE = compile(r"(?:^|[.;!]\s)(?:Please |Try|Use|Instead|You (?:should|must|need))\b")
# It says what it wants.
_RULE = compile(
    r"(?i)\b(?:must|must not|requires?|required|policy|not allowed|not permitted|only|cannot|"
    r"at (?:most|least)|can't|exceeds?|exceeded|add up|unexpected|missing|invalid|should|limit|"
    r"maximum|minimum|already|expected|forbidden|mismatch|does not match|"
    r"not supported|unsupported)\b"
)
_TOO_MUCH = compile(r"(?i)unexpected (?:keyword )?argument|unknown (?:argument|parameter|field)")
_NO_FORM = compile(
    r"(?i)\b(?:formats?|file types?|extensions?)\b[^\n]{0,80}\bnot supported|"
    r"\bunsupported (?:file|format)"
)
_VALUE = compile(r"'[^']{0,200}'|\"[^\"]{0,200}\"|\b\w*\d\w*\b")
_LONG_VALUE = compile(r"'[^'\n]{25,300}'|\"[^\"\n]{25,300}\"")
_REMINDER = compile(r"(?i)\s*(?:As a reminder|You should only use this tool).*")


def refusal(call: Call) -> str | None:
    """What a tool said when it refused, as far as one can learn from it."""
    found = _FAILED.match(call.answer[:4_000])
    if not found:
        return None
    said = found["said"]
    if wrapped := _WRAPPED.match(said):
        said = wrapped[1]
    said = _REMINDER.split(" ".join(said.split()), 1)[0].strip()
    if call.answer.lstrip().startswith("{"):
        said = said.strip('"} ')
    absent = _BROKEN.search(said) or (_NOT_THERE.search(said) and not _ADVICE.search(said))
    return short(said, LONGEST) if said and not absent else None


def calls(session: Session, entries: Sequence[Entry], told: Outcome | None) -> Iterator[Finding]:
    """In a task that failed, a call that was taken may have been the mistake: then only what the
    tool said is kept."""
    made = [entry for entry in entries if isinstance(entry, Call)]
    failed = bool(made) and verdict(session, told=told).outcome is Outcome.FAILURE
    known: set[tuple[str, str]] = set()
    for place, call in enumerate(made):
        said = refusal(call)
        if said is None or (call.tool, _kind(said)) in known:
            continue
        known.add((call.tool, _kind(said)))
        alike = [c for c in made[place:] if c.tool == call.tool]
        taken = next((c for c in alike if _taken(c)), None)
        near = taken is not None and taken.number - call.number <= FAR
        changes = _changes(alike, taken) if taken and near else []
        if taken and changes and _SEARCHED.search(said):
            yield from _loosened(session, call, _last_refused(alike, taken), taken, said)
        elif taken and changes and not failed:
            yield _accepted(session, call, taken, said, changes)
        elif _RULE.search(said) or (not taken and len(alike) >= STUBBORN):
            same = [c for c in alike if (its := refusal(c)) and _kind(its) == _kind(said)]
            yield _refused(session, same, said, _paid_later(same[-1], alike, said))


def _kind(said: str) -> str:
    """The same error with other values in it is the same."""
    return stable(_VALUE.sub("''", said))


def _taken(call: Call) -> bool:
    return bool(call.answer.strip()) and not _FAILED.match(call.answer[:4_000])


def _changes(alike: list[Call], taken: Call) -> list[str]:
    """What is different in the call that was taken from the last one that was not."""
    before = _last_refused(alike, taken)
    old, new = _parsed(before.arguments), _parsed(taken.arguments)
    return list(_differences("", old, new)) if old != new else []


def _last_refused(alike: list[Call], taken: Call) -> Call:
    return [c for c in alike if c.number < taken.number and not _taken(c)][-1]


# A search that found nothing until less was asked of it.

LOOSER = 0.7
_SEARCHED = compile(r"(?i)\bno (?:results?|match\w*|hits)\b|\bquery\b")
_SITE = compile(r"(?i)\b(?:site|intitle|inurl|filetype):\S")
_PHRASE = compile(r"[\"“][^\"“”]{3,200}[\"”]")


def _loosened(
    session: Session, first: Call, before: Call, taken: Call, said: str
) -> Iterator[Finding]:
    old, new = _query(before.arguments), _query(taken.arguments)
    if not old or not new:
        return
    words = (len(old.split()), len(new.split()))
    less = [f"with {words[1]} words instead of {words[0]}"] if words[1] <= LOOSER * words[0] else []
    for pattern, name in ((_SITE, "`site:` or the like"), (_PHRASE, "quoted phrases")):
        if pattern.search(old) and not pattern.search(new):
            less.append(f"without {name}")
    if not less:
        return
    how = ", ".join(less)
    yield noted(
        session, "loosened", first.number, taken.number, weight=0.6,
        title=f"`{first.tool}` finds nothing for narrow queries: it found something {how}",
        description=f"When `{first.tool}` answers “{short(_brief(said), 90)}”, as in the task: "
        f"{gist(session)}",
        content=f"Task: {gist(session)}\n\n`{first.tool}` answered: {short(_brief(said), 120)}\n\n"
        f"Nothing was found with:\n- `{_shown(old)}`\nSomething was found {how}:\n"
        f"- `{_shown(new)}`\n\nWhether it was what was wanted is not known.",
        outcome=Outcome.SUCCESS,
        error=_error(_brief(said), f"Ask for less: {how}."),
        tags=(first.tool,),
    )  # fmt: skip


def _query(arguments: str) -> str:
    """The longest text among the arguments."""
    parsed = _parsed(arguments)
    values = parsed.values() if isinstance(parsed, dict) else [parsed]
    return max((v for v in values if isinstance(v, str)), key=len, default="")


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return " ".join(arguments.split())


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    """As deep as both have the same shape."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            where = f"{path}.{name}" if path else name or '""'
            if name not in new:
                yield f"without `{where}`"
            elif name not in old:
                yield f"with `{where}` = `{_shown(new[name])}`"
            elif old[name] != new[name]:
                yield from _differences(where, old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                yield from _differences(f"{path}[{place}]", one, other)
    else:
        what = f"`{path}` = " if path else ""
        yield f"with {what}`{_shown(new)}` instead of `{_shown(old)}`"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return short(" ".join(text.split()).replace("`", "'"), 160)


def _accepted(session: Session, call: Call, taken: Call, said: str, changes: list[str]) -> Finding:
    what = "; ".join(changes[:4])
    return noted(
        session, "call", call.number, taken.number, weight=0.75,
        title=f"`{call.tool}` refuses with “{short(_brief(said), 90)}”: call it {short(what, 80)}",
        description=_when(session, call, said),
        content=f"Task: {gist(session)}\n\n`{call.tool}` answered: {said}\n\n"
        f"It took the call {what}.",
        outcome=Outcome.SUCCESS,
        error=_error(said, f"Call `{call.tool}` {what}."),
        tags=(call.tool,),
    )  # fmt: skip


def _brief(said: str) -> str:
    """Without the values in it that only this call had."""
    return _LONG_VALUE.sub("...", said)


def _paid_later(last: Call, alike: list[Call], said: str) -> str:
    """The amount that the tool wanted, in the call that it then took."""
    taken = next((c for c in alike if c.number > last.number and _taken(c)), None)
    if taken is None or not _AMOUNTS.search(said):
        return ""
    paid = _shown(_concerned(taken.arguments, said))
    wanted = [number for number in _NUMBER.findall(said) if number in _NUMBER.findall(paid)]
    return f"It took the call with `{paid}`.\n\n" if wanted else ""


_NUMBER = compile(r"\b\d{1,12}(?:\.\d{1,4})?\b")


def _refused(session: Session, same: list[Call], said: str, later: str) -> Finding:
    call, last = same[0], same[-1]
    times = "" if len(same) == 1 else f" {len(same)} times"
    ways = list(dict.fromkeys(_shown(_concerned(c.arguments, said)) for c in same))[:3]
    beside = _beside(call.arguments, said) if _AMOUNTS.search(said) else ""
    guidance = "See to it before the call; do not call it so again."
    if _TOO_MUCH.search(said):
        guidance = "Leave these arguments out."
    elif _NO_FORM.search(said):
        guidance = (
            f"`{call.tool}` goes by the end of the name: hand over a name that ends in a form it "
            "knows, turn the file into one first, or read it another way."
        )
    elif beside:
        guidance = "Work the amount out from all of that before the call."
    tried = "".join(f"\n- `{way}`" for way in ways)
    return noted(
        session, "refused", call.number, last.number, weight=0.65,
        title=f"`{call.tool}` refuses: {said}",
        description=_when(session, call, said),
        content=f"Task: {gist(session)}\n\n`{call.tool}` refused{times}: {said}\n\n"
        f"It was called with:{tried}\n\n{beside}{later}{guidance}",
        outcome=Outcome.FAILURE,
        error=_error(said, guidance),
        tags=(call.tool,),
    )  # fmt: skip


def _concerned(arguments: str, said: str) -> Any:
    """The arguments that a refusal speaks of; all, where it names none."""
    parsed = _parsed(arguments)
    if not isinstance(parsed, dict):
        return parsed
    spoken = names_in(said)
    by_value = {n: v for n, v in parsed.items() if spoken & _names(str(v))}
    by_name = {n: v for n, v in parsed.items() if spoken & _names(n)}
    return by_value or by_name or parsed


_AMOUNTS = compile(
    r"(?i)\b(?:amounts?|totals?|prices?|sums?|balance|paid|costs?)\b.{0,40}\d[\d.,]*\b.{1,60}\b\d"
)


def _beside(arguments: str, said: str) -> str:
    """What else a call had that may count into an amount: values, and how many there were."""
    parsed, concerned = _parsed(arguments), _concerned(arguments, said)
    if not isinstance(parsed, dict) or concerned == parsed:
        return ""
    told = [
        f"{len(v)} {n}" if isinstance(v, list) else f"`{n}` = {_shown(v)}"
        for n, v in parsed.items()
        if n not in concerned and isinstance(v, list | int | float | str) and not _ID.search(n)
    ]
    return f"Beside it the call had: {', '.join(told[:10])}.\n\n" if told else ""


_ID = compile(r"(?i)(?:^|_)ids?\z")


def _names(text: str) -> frozenset[str]:
    return names_in(text.replace("_", " "))


def _when(session: Session, call: Call, said: str) -> str:
    return f"Before `{call.tool}` is called, as in the task: {gist(session)} It may refuse: {said}"


def _error(said: str, guidance: str) -> ErrorContext:
    return ErrorContext(
        error_type="Refused",
        failure_pattern=short(stable(said), 500),
        corrective_guidance=short(guidance, 1_500),
        error_message=said,
    )
