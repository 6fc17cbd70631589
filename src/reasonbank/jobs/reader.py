"""A transcript that was handed over becomes a session that waits to be learned from."""

from __future__ import annotations

from dataclasses import dataclass

import anyio.to_thread

from reasonbank.errors import InvalidInput
from reasonbank.jobs.worker import Effects, Task, Work
from reasonbank.learn.session import to_trace
from reasonbank.learn.transcripts import files
from reasonbank.ledger.port import Writing
from reasonbank.model import Trace, derived_id
from reasonbank.store import queue, traces
from reasonbank.store.context import Context
from reasonbank.store.queue import Transcript
from reasonbank.store.workspaces import is_place, project_of


def tasks() -> dict[str, Task]:
    return {queue.TRANSCRIPT: read}


GROWN = 30_000_000
"""A transcript that grew while it was read is read again after so long: its agent is at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """``context`` is that of the project which the session worked in; no ``trace`` tells that
    nothing has happened in it yet."""

    context: Context
    trace: Trace | None
    mark: str


async def read(work: Work) -> Effects:
    """Read it, unless it is as it was when it was read before."""
    transcript = Transcript.of(work.job.subject)
    known = (work.job.checkpoint or {}).get("mark")
    told = await anyio.to_thread.run_sync(lambda: _told(work.context, transcript, known))
    work.left = {"mark": told.mark}

    def effects(context: Context, txn: Writing) -> None:
        if told.trace is not None:
            _hand_in(told.context, txn, told.trace)
        # Whoever hands it over while it is being read relies on this look.
        if files.mark_of(transcript) not in (None, told.mark):
            txn.queue.retry(work.job.id, context.now() + GROWN)

    return effects


def _told(context: Context, transcript: Transcript, known: str | None) -> _Told:
    found = files.session_at(transcript, unless=known)
    if found is None:
        return _Told(context=context, trace=None, mark=known or "")
    session, mark = found
    if not session.entries:
        return _Told(context=context, trace=None, mark=mark)
    if is_place(session.directory):
        project = project_of(context.read(), session.directory)
        context = context.seen_by(workspace=project.id, path=project.path)
    # By its name: read twice, it is the same session.
    trace = to_trace(session, None, id=derived_id("session", session.agent, session.id))
    return _Told(context=context, trace=traces.fit(context, trace), mark=mark)


def _hand_in(context: Context, txn: Writing, trace: Trace) -> None:
    if txn.trace_taken(trace.id) and txn.trace(context.view, trace.id) is None:
        raise InvalidInput("transcript", f"is stored in another project, as trace {trace.id}")
    queue.distil_in(context, txn, trace)
