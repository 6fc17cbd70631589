"""Writing down what a session shows of the memories that it was given.

They are evidence under the name that the session's searches gave, shared as in
docs/decisions/0017-credit-is-shared.md, and say what observed it. A session that has grown
since corrects what it said before, and says nothing twice. What anybody told of a memory, or of
how the session went, stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reasonbank.fields import LIMITS
from reasonbank.learn import observed, session
from reasonbank.learn.judge import Verdict, verified
from reasonbank.learn.observed import Observation
from reasonbank.learn.outcome import Basis
from reasonbank.ledger.events import EventType, hand_of
from reasonbank.ledger.port import Reading, Wanted, Writing
from reasonbank.ledger.sessions import Giving
from reasonbank.model import EvidenceKind, Memory, Outcome, Principal, Trace
from reasonbank.store import evidence
from reasonbank.store.context import Context

UNNAMED = "unknown"
"""What a session is called that has no name: others may be called so, too."""
SHORT = 7
"""So many digits of a commit's id git prints at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """What was observed, of the session by this name."""

    session: str
    seen: tuple[Observation, ...]


def names_of(trace: Trace) -> list[str]:
    """What the searches of a session may have called it."""
    named = str(trace.metadata.get("session") or "")[: LIMITS.label]
    return [name for name in dict.fromkeys((named, trace.id)) if name not in ("", UNNAMED)]


def prepare(context: Context, trace: Trace) -> list[Credit]:
    """What there is to write down; changes nothing."""
    reading = context.read()
    verdict = verified(trace)
    found = []
    for name in names_of(trace):
        givings = reading.givings(context.view, name)
        seen = tuple(_seen(context, reading, trace, givings, verdict)) if givings else ()
        if seen:
            found.append(Credit(session=name, seen=seen))
    return found


def _seen(
    context: Context, reading: Reading, trace: Trace, givings: Sequence[Giving],
    verdict: Verdict | None,
) -> Iterable[Observation]:  # fmt: skip
    known = _known(context, reading, trace, givings)
    times = [step.at for step in trace.trajectory]
    if any(times) and trace.outcome is None:
        return observed.observations(session.of_trace(trace), times, givings, known)
    # Nobody knows when things happened, or the caller knows better how all of it went.
    if verdict is None or verdict.outcome is Outcome.MIXED:
        return ()
    succeeded = verdict.outcome is Outcome.SUCCESS
    by = Basis.CALLER if trace.outcome else Basis(verdict.by)
    return [
        Observation(
            memory=id, succeeded=succeeded, by=by, reason=verdict.reason or str(by), followed=False
        )
        for id in _sharing(givings, known)
    ]


def _known(
    context: Context, reading: Reading, trace: Trace, givings: Sequence[Giving]
) -> dict[str, Memory]:
    """Of what was given, that which is there; what the caller says was used is told by that."""
    ids = dict.fromkeys(id for giving in givings for id in giving.memories)
    rows = [reading.row(context.view, id) for id in ids if id not in trace.memories_used]
    return {row.id: row.memory() for row in rows if row is not None}


def _sharing(givings: Sequence[Giving], known: Mapping[str, Memory]) -> list[str]:
    """Where nobody saw which were used: not what came as a weak match beside sure ones."""
    sharing = {id for giving in givings for id in giving.sharing}
    return [id for id in known if id in sharing]


def led_to(context: Context, trace: Trace, commit: str) -> list[str]:
    """The memories that the session was given before it made a commit, if they had a part in it."""
    reading = context.read()
    times = [step.at for step in trace.trajectory]
    found: dict[str, None] = {}
    for name in names_of(trace):
        if not (givings := reading.givings(context.view, name)):
            continue
        known = _known(context, reading, trace, givings)
        ids = observed.led_to(session.of_trace(trace), times, givings, known, commit[:SHORT])
        found |= dict.fromkeys(ids if any(times) else _sharing(givings, known))
    return list(found)


def store(context: Context, txn: Writing, trace: Trace, credits: Sequence[Credit]) -> None:
    witnessed = is_read_in(txn, trace.id)
    for credit in credits:
        if _is_told(context, txn, credit.session):
            continue
        for seen in credit.seen:
            _observe(context, txn, trace.id, credit.session, seen, witnessed=witnessed)


def is_read_in(reading: Reading, trace: str) -> bool:
    """Whether all that is known of the session was read in by the bank or a person: an agent that
    tells of itself what it ran is not believed for that alone."""
    told = reading.about([trace], frozenset({EventType.TRACED}))
    return bool(told) and all(e.principal in (Principal.MODEL, Principal.PERSON) for e in told)


def observer(context: Context, reading: Reading, trace: str, by: str) -> Context:
    """Nobody's opinion: it is what ran that says so, and the bank that looked. Of a session that
    somebody tells of, it is their word."""
    if is_read_in(reading, trace):
        return replace(context, acts_as=Principal.BANK).seen_by(author=by)
    who = whose(context, reading, trace)
    return replace(context, acts_as=Principal.MODEL).seen_by(author=by, identity=who)


def whose(context: Context, reading: Reading, trace: str) -> str:
    """Who worked in a session, whoever reads it."""
    told = reading.about([trace], frozenset({EventType.TRACED}))
    return next((hand_of(event).partition(":")[2] for event in told), context.who)


def _is_told(context: Context, txn: Writing, name: str) -> bool:
    """Whether anybody else has said how the session went."""
    if txn.ended(context.view, name) is None:
        return False
    changes = txn.audit(Wanted(workspace=context.view.workspace, subject=name, limit=100))
    return any(c.what == EventType.ENDED and c.principal is not Principal.BANK for c in changes)


def judge(context: Context, txn: Writing, trace: Trace, verdict: Verdict) -> None:
    """How the session went as a whole, whether it was given memories or would have been: those
    with and those without are judged alike. It says nothing of any single memory."""
    if verdict.outcome is Outcome.MIXED:
        return
    succeeded = verdict.outcome is Outcome.SUCCESS
    # It is what ran, or who judged it, that says so.
    judging = replace(context, acts_as=Principal.BANK).seen_by(author=verdict.by)
    for name in names_of(trace):
        known = txn.withheld(context.view, name) or txn.session_uses(context.view, name)
        if known and txn.judged(context.view, name) is not succeeded:
            judging.append(txn, EventType.JUDGED, name, {"succeeded": succeeded})


def _observe(
    context: Context, txn: Writing, trace: str, name: str, seen: Observation, *, witnessed: bool
) -> None:
    if txn.row(context.view, seen.memory) is None:
        return
    observing = observer(context, txn, trace, str(seen.by))
    reason = context.without_secrets(seen.reason)[: context.settings.limits.comment]
    evidence.observe_in(
        observing, txn, seen.memory, EvidenceKind.OUTCOME, seen.succeeded, name, reason,
        shared=True, witnessed=witnessed and seen.followed and seen.by is not Basis.CALLER,
    )  # fmt: skip
