"""How tasks went, step by step, as they were reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reasonbank.errors import NotFound, Refused
from reasonbank.fields import checked
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.ledger.projection.forgetting import FORGOTTEN_TEXT
from reasonbank.ledger.sessions import learned_steps
from reasonbank.llm.excerpt import CUT
from reasonbank.model import Step, Trace, from_micros, to_micros
from reasonbank.store.commits import with_commits
from reasonbank.store.context import Context

DAY = 86_400_000_000
BEGINS = 40


def store(context: Context, trace: Trace) -> Trace:
    trace = fit(context, trace)
    return context.write(lambda txn: store_in(context, txn, trace))


def fit(context: Context, trace: Trace) -> Trace:
    """``trace`` checked and without secrets, or an error that names the wrong field."""
    settings = context.settings
    trace = with_commits(checked(trace, settings.limits))
    if not settings.scrub:
        return trace
    from reasonbank.safety.scrub import clean_trace

    cleaned = clean_trace(trace)
    return trace if cleaned is trace else checked(cleaned, settings.limits)


def store_in(context: Context, txn: Writing, trace: Trace) -> Trace:
    if txn.trace(context.view, trace.id) is not None:
        raise Refused(f"trace {trace.id} is stored already")
    if txn.trace_taken(trace.id):
        raise Refused(f"the id {trace.id} cannot be used here; leave it out to get a new one")
    context.join(txn)
    at = txn.stamp()
    stored = replace(trace, created_at=trace.created_at or from_micros(at))
    assert stored.created_at is not None
    payload = {"trace": stored.to_json(), "at": to_micros(stored.created_at)}
    context.append(txn, EventType.TRACED, stored.id, payload, at=at)
    return stored


TAIL = 3
"""So many steps, found again in their order, are where a rewritten session was left."""


def common_steps(known: Sequence[Step], told: Sequence[Step]) -> int:
    """How many steps two records of a session share from its beginning on."""
    pairs = enumerate(zip(known, told, strict=False))
    return next((n for n, pair in pairs if not _is_same(*pair)), min(len(known), len(told)))


def _is_same(known: Step, told: Step) -> bool:
    return (
        known.action == told.action
        and _is_alike(known.content or "", told.content or "")
        and _is_alike(known.feedback or "", told.feedback or "")
    )


def _is_alike(known: str, told: str) -> bool:
    """What was forgotten since is known by what is around it, what was cut by how it begins."""
    if known == told:
        return True
    if FORGOTTEN_TEXT in known:
        head, _, rest = known.partition(FORGOTTEN_TEXT)
        return told.startswith(head) and told.endswith(rest.rpartition(FORGOTTEN_TEXT)[2])
    return (CUT in known or CUT in told) and known[:BEGINS] == told[:BEGINS]


def continue_in(context: Context, txn: Writing, known: Trace, told: Trace) -> int:
    """Store what a session that is known has more than before; how many of its steps are new.

    An agent may have rewritten what it had told: then its new account replaces the old one from
    there on, and what was learned from is looked for in it.
    """
    same = common_steps(known.trajectory, told.trajectory)
    if same == len(told.trajectory):
        return 0
    learned = learned_steps(known)
    if same < learned:
        learned = max(same, _left_off(known.trajectory[:learned], told.trajectory))
    at = txn.stamp()
    more = replace(told, trajectory=told.trajectory[same:], created_at=known.created_at)
    payload = {"trace": more.to_json(), "at": at, "after": same, "learned": learned}
    context.append(txn, EventType.TRACED, known.id, payload, at=at)
    return len(told.trajectory) - learned


def _left_off(learned: Sequence[Step], told: Sequence[Step]) -> int:
    """How many steps of ``told`` there are up to the last ones that were learned from."""
    tail = learned[-TAIL:]
    for end in range(len(told), len(tail) - 1, -1):
        if len(tail) > 1 and common_steps(tail, told[end - len(tail) : end]) == len(tail):
            return end
    return 0


def get(context: Context, id: str) -> Trace:
    found = context.read().trace(context.view, id)
    if found is None:
        raise NotFound(f"there is no trace {id} in workspace {context.view.workspace}")
    return found


def listed(context: Context, limit: int) -> list[Trace]:
    return context.read().traces(context.view, limit)


def purge(context: Context, older_than_days: int) -> int:
    def work(txn: Writing) -> int:
        ids = txn.traces_before(context.view, context.now() - older_than_days * DAY)
        if ids:
            context.append(txn, EventType.PURGED, context.view.workspace, {"ids": ids})
        return len(ids)

    count = context.write(work)
    if count:
        context.store.ledger.scrub()
    return count
