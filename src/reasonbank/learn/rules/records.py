"""What the records of tools show of how they are to be used: where a thing is found that nobody
can name, that a list is replaced as a whole, whose word does not count.

All of it holds for the next customer: it is about tools, and names nobody's data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.matters import stems
from reasonbank.learn.rules.task import gist, sentences
from reasonbank.learn.session import SYSTEM, Call, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

LONGEST_RECORD = 20_000
MOST_CALLS = 60
IN_VAIN = 3
"""So often must something be asked for that its user has not got."""


def record(text: str) -> dict[str, Any]:
    """What a tool answered, or was called with, by its names; empty where that has none."""
    try:
        found = json.loads(text[:LONGEST_RECORD])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def records(session: Session, entries: Sequence[Entry], told: Outcome | None) -> Iterator[Finding]:
    if not session.serves:
        return
    outcome = verdict(session, told=told).outcome
    failed = outcome is Outcome.FAILURE
    calls = [entry for entry in entries if isinstance(entry, Call)][:MOST_CALLS]
    if missed := _not_at_hand(entries):
        found = _elsewhere(session, missed, calls)
        yield from [found] if found else _in_vain(session, entries, missed, calls, failed)
    if failed:
        yield from _replaced_list(session, calls)
        yield from _left_out(session, entries, calls)
    yield from _only_claimed(session, entries, calls, outcome)


# What somebody was asked for and has not got, and the tool that has it.

_HAS_NOT = compile(
    r"(?i)\b(?:do(?:n['’]?t| not)|ca(?:n['’]?t|nnot)|could(?:n['’]?t| not)|not sure|forgot(?:ten)?|"
    r"lost|unable to)\b[^.?!\n]{0,60}?\b(?P<what>[a-z]+ (?:id|number|code|reference|key))s?\b"
)
_ASKING = compile(r"(?i)\b(?:need|provide|give|share|once you have|find|locate|without)\b")
_TELLS = compile(r"(?i)\b(?:contain(?:s|ing)?|includ(?:es|ing)|lists?|has|have)\b")


class _Missed:
    """What is missing, where its user said so, and in which words."""

    def __init__(self, turn: Turn, what: str, said: str) -> None:
        self.number = turn.number
        self.what = what[: what.rindex(" ")].lower() + what[what.rindex(" ") :]
        self.said = said
        self.stem = next(iter(stems(what.partition(" ")[0])), "")


def _not_at_hand(entries: Sequence[Entry]) -> _Missed | None:
    for entry in entries:
        if isinstance(entry, Turn) and entry.by_user:
            for said in sentences(entry.text[:4_000]):
                if found := _HAS_NOT.search(said[:400]):
                    missed = _Missed(entry, found["what"], said)
                    if missed.stem:
                        return missed
    return None


def _elsewhere(session: Session, missed: _Missed, calls: Sequence[Call]) -> Finding | None:
    later = [call for call in calls if call.number > missed.number]
    for place, call in enumerate(later):
        for name, listed in record(call.answer).items():
            if missed.stem not in stems(name) or not isinstance(listed, list):
                continue
            ids = {value for value in listed if isinstance(value, str)}
            user = next((c for c in later[place + 1 :] if ids & _values(c.arguments)), None)
            if user and not ids & _values(call.arguments):
                return _looked_up(session, missed, call, name, user)
    return None


def _values(arguments: str) -> set[str]:
    return {value for value in record(arguments).values() if isinstance(value, str)}


def _looked_up(session: Session, missed: _Missed, call: Call, name: str, user: Call) -> Finding:
    given = ", ".join(f"`{argument}`" for argument in record(call.arguments)) or "nothing"
    asks = "" if given == "nothing" else f": ask for {given} instead"
    return noted(
        session, "looked-up", missed.number, user.number, weight=0.72,
        title=f"No {missed.what} at hand{asks}, `{call.tool}` lists the `{name}`",
        description=f"When somebody is asked for the {missed.what} and has not got it, as in the "
        f"task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe user had no {missed.what} at hand. `{call.tool}` "
        f"was called with {given}, and its answer has the list `{name}`; `{user.tool}` then took "
        f"an entry of it.\n\nDo not ask for the {missed.what} again, and do not send anybody away "
        f"for it: call `{call.tool}` with {given}, look at each of its `{name}` with "
        f"`{user.tool}`, and ask which one is meant if more than one fits.",
        outcome=Outcome.SUCCESS, tags=(call.tool,),
    )  # fmt: skip


def _in_vain(
    session: Session, entries: Sequence[Entry], missed: _Missed, calls: Sequence[Call], failed: bool
) -> Iterator[Finding]:
    """It was asked for again and again, and no tool was tried."""
    asked = [
        entry
        for entry in entries
        if isinstance(entry, Turn) and not entry.by_user and not entry.role
        and entry.number > missed.number
        and missed.what.lower() in entry.text.lower() and _ASKING.search(entry.text)
    ]  # fmt: skip
    looked = [call for call in calls if record(call.answer)]
    if not failed or len(asked) < IN_VAIN or looked:
        return
    where = _told_where(entries, missed)
    stated = f" The instructions say where it is: “{short(where, 240)}”" if where else ""
    guidance = (
        f"Ask for something else that finds it (who they are, what it is about), look the "
        f"{missed.what} up with a tool, and go on from there."
    )
    yield noted(
        session, "in-vain", missed.number, asked[-1].number, weight=0.6,
        title=f"Asked {len(asked)} times for a {missed.what} that the user had not got, and "
        "looked nothing up: the task failed",
        description=f"When somebody is asked for the {missed.what} and has not got it, as in the "
        f"task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe user said: “{short(missed.said, 160)}” The agent "
        f"asked for it {len(asked)} more times and called no tool to find it; the task was "
        f"checked and failed.{stated}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error("AskedInVain", f"asked again for a {missed.what} that is not there", guidance),
    )  # fmt: skip


def _told_where(entries: Sequence[Entry], missed: _Missed) -> str:
    """The line that says what has the thing among its parts."""
    texts = (e.text for e in entries if isinstance(e, Turn) and e.role == SYSTEM)
    for line in (line for text in texts for line in text.splitlines()):
        head, _, rest = line.partition(missed.what.partition(" ")[0])
        if rest and _TELLS.search(head[:200]) and rest.lstrip("s ").startswith(_NUMBERS):
            return line.strip().lstrip("-* ")
    return ""


_NUMBERS = ("id", "number", "code", "reference")


# A list that a call gives is the whole list.


def _replaced_list(session: Session, calls: Sequence[Call]) -> Iterator[Finding]:
    for place, call in enumerate(calls):
        given, after = record(call.arguments), record(call.answer)
        for name, new in given.items():
            now = after.get(name)
            if not isinstance(new, list) or not isinstance(now, list) or len(now) != len(new):
                continue
            old = _before(calls[:place], name, _ids(after))
            if old and len(old) > len(new):
                yield _gone(session, call, name, (len(old), len(new)))
                return


def _before(calls: Sequence[Call], name: str, ids: dict[str, Any]) -> list[Any]:
    """The list of this name in what was last known of the very same thing."""
    for call in reversed(calls):
        known = record(call.answer)
        if ids and isinstance(known.get(name), list) and _ids(known) == ids:
            return list(known[name])
    return []


_ID = compile(r"(?i)(?:^|_)ids?\z")


def _ids(known: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if _ID.search(name)}


def _gone(session: Session, call: Call, name: str, counts: tuple[int, int]) -> Finding:
    before, after = counts
    guidance = (
        f"Give all of `{name}` that are to remain, the unchanged ones too; if `{call.tool}` does "
        "not take one of them, do not leave it out to get the call through."
    )
    return noted(
        session, "replaced-list", call.number, call.number, weight=0.7,
        title=f"`{call.tool}` replaces the whole list `{name}`: what is left out of it is gone",
        description=f"Before `{call.tool}` is called, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe record had {before} `{name}`. `{call.tool}` was "
        f"called with {after}, and its answer shows {after}: the rest is gone. The task was "
        f"checked and failed.\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error("ListReplaced", f"{call.tool} with a part of {name}", guidance),
        tags=(call.tool,),
    )  # fmt: skip


# Of a list of things only some were looked at, though all were meant.

_ALL = compile(r"(?i)\b(?:all(?: of)?|every one of|each of|any of) (?:my|our|the|their)\b")
LEAST_LISTED = 3


def _left_out(
    session: Session, entries: Sequence[Entry], calls: Sequence[Call]
) -> Iterator[Finding]:
    turns = (entry for entry in entries if isinstance(entry, Turn) and entry.by_user)
    wanted = next((s for turn in turns for s in sentences(turn.text) if _ALL.search(s)), "")
    for place, call in enumerate(calls) if wanted else ():
        for name, listed in record(call.answer).items():
            ids = {value for value in listed if isinstance(value, str)} if _is_list(listed) else ()
            lookers = [c for c in calls[place + 1 :] if set(ids) & _values(c.arguments)]
            seen = {v for c in lookers for v in _values(c.arguments)} & set(ids)
            if len(ids) >= LEAST_LISTED and 2 <= len(seen) < len(ids):
                yield _not_all(session, call, lookers, name, (len(seen), len(ids)), wanted)
                return


def _is_list(value: object) -> bool:
    return isinstance(value, list) and len(value) >= LEAST_LISTED


def _not_all(
    session: Session, call: Call, lookers: Sequence[Call], name: str, counts: tuple[int, int],
    wanted: str,
) -> Finding:  # fmt: skip
    seen, listed = counts
    looker, last = lookers[0], lookers[-1].number
    guidance = (
        f"Where all are meant, look at every one of the `{name}` with `{looker.tool}` before "
        "anything is proposed or changed."
    )
    return noted(
        session, "left-out", last, last, weight=0.68,
        title=f"Only {seen} of {listed} `{name}` were looked at, though all were meant",
        description=f"When somebody means all of their {name}, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe user said: “{short(wanted, 160)}” `{call.tool}` "
        f"listed {listed} `{name}`; `{looker.tool}` was called for {seen} of them and never for "
        f"the others. The task was checked and failed.\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=_error("LeftOut", f"{seen} of {listed} {name} were looked at", guidance),
        tags=(looker.tool,),
    )  # fmt: skip


# What somebody says of themselves, and what the record says.

_PAIR = compile(r"(?i)\b([a-z]{3,20}) ([a-z]{4,20})\b")


def _only_claimed(
    session: Session, entries: Sequence[Entry], calls: Sequence[Call], outcome: Outcome | None
) -> Iterator[Finding]:
    stated = " ".join(e.text for e in entries if isinstance(e, Turn) and e.role == SYSTEM).lower()
    said = [e for e in entries if isinstance(e, Turn) and e.by_user]
    for call in calls if stated else ():
        for name, value in record(call.answer).items():
            if not isinstance(value, str) or not value.isalpha():
                continue
            for turn in said:
                claim = _claimed(turn.text, name, value.lower(), stated)
                if claim:
                    yield _by_the_record(session, (turn, call), name, (claim, value), outcome)
                    return


def _claimed(text: str, name: str, value: str, stated: str) -> str | None:
    """`Gold member`, where `membership` is another, and the rules know of gold members."""
    for claimed, thing in _PAIR.findall(text[:4_000]):
        known = f"{claimed} {thing}".lower()
        if stems(thing) & stems(name) and claimed.lower() != value and (
            f"{value} {thing}".lower() in stated and known in stated
        ):  # fmt: skip
            return known
    return None


def _by_the_record(
    session: Session, seen: tuple[Turn, Call], name: str, values: tuple[str, str],
    outcome: Outcome | None,
) -> Finding:  # fmt: skip
    turn, call = seen
    claim, value = values
    ended = {
        Outcome.FAILURE: "The task was checked and failed.",
        Outcome.SUCCESS: "The task was checked and succeeded.",
    }.get(outcome or Outcome.MIXED, "Nothing shows how the task ended.")
    failed = outcome is Outcome.FAILURE
    guidance = (
        f"Look `{name}` up with `{call.tool}` before anything is promised or given for it, and go "
        "by the record, however often the user says otherwise."
    )
    return noted(
        session, "claimed", turn.number, max(turn.number, call.number), weight=0.66,
        title=f"Users may be wrong about their `{name}`: go by `{call.tool}`",
        description=f"When somebody refers to their {name}, as in the task: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThe user claimed to be a {claim}; `{call.tool}` "
        f"answered `{name}` = {value}. {ended}\n\n{guidance}",
        outcome=outcome or Outcome.MIXED,
        error=_error("OnlyClaimed", f"a {name} that the record does not bear out", guidance)
        if failed else None,
        tags=(call.tool,),
    )  # fmt: skip


def _error(kind: str, pattern: str, guidance: str) -> ErrorContext:
    return ErrorContext(
        error_type=kind, failure_pattern=short(pattern, 500), corrective_guidance=guidance
    )
