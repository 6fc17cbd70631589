"""The end of a turn or of a session: what happened is handed over to be learned from."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from reasonbank.surfaces.agents import Event

if TYPE_CHECKING:
    from reasonbank.store.context import Context
    from reasonbank.surfaces.hooks.respond import Hooked
    from reasonbank.surfaces.hooks.told import Told

TAIL = 1_000_000
"""Bytes of a transcript that are looked at before an agent is asked what it learned."""
LASTING = ("http", "worker", "library")
"""Surfaces of processes that do not end with the agent's session."""


def hand_over(hooked: Hooked) -> None:
    """Queue the transcript; at the end, see to it that somebody reads it."""
    from reasonbank.store import queue
    from reasonbank.surfaces.hooks.respond import NO_SESSION_END

    told = hooked.told
    context = hooked.context()
    if context.store.ledger.read_only:
        return
    agent, session = told.agent, told.session
    ends = told.event is Event.SESSION_END
    if told.transcript or told.agent == "opencode":
        queue.hand_over(context, agent=agent, session=session, path=told.transcript, ended=ends)
    elif ends:
        queue.ended_somewhere(context, agent=agent, session=session)
    if ends or (told.event is Event.TURN_END and told.agent in NO_SESSION_END):
        start_worker(context)


# After a while: what it is to read must have been written.
_WORKER = (
    "import os, time; os.nice(10); time.sleep(2); from reasonbank.surfaces.cli import main; main()"
)


def start_worker(context: Context) -> subprocess.Popen[bytes] | None:
    """A process that does what waits and ends, unless one works that stays: tomorrow's session
    is to know what this one has learned."""
    from reasonbank.store import working

    at_work = working.who(context)
    path = context.store.ledger.beside
    if path is None or (at_work is not None and at_work.surface in LASTING):
        return None
    depth = context.read().queue.depth(None)
    if not depth.waiting + depth.running:
        return None
    lock = _locked(f"{path}.hooks")
    if lock is None:
        return None
    try:
        worker = subprocess.Popen(  # nosec B603  # ourselves
            [sys.executable, "-c", _WORKER, "worker", "--until-empty"],
            # Not as an argument, which everybody on this machine can read.
            env={**os.environ, "REASONBANK_URL": context.store.url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # It keeps the lock for as long as it lives, however it ends.
            pass_fds=(lock,),
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    finally:
        os.close(lock)
    # A server that started it lives on, and leaves nobody dead behind.
    threading.Thread(target=worker.wait, daemon=True).start()
    return worker


def _locked(folder: str) -> int | None:
    """The right to start one; None while another has it."""
    import fcntl

    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    lock = os.open(f"{folder}/.worker", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def taught_something(told: Told) -> bool:
    """Whether something failed in this session and was put right, or the user corrected it."""
    from reasonbank.learn import transcripts
    from reasonbank.learn.rules.rules import findings
    from reasonbank.model import Outcome

    if told.agent not in transcripts.FORMATS:
        return False
    try:
        with open(told.transcript, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            text = file.read(TAIL).decode("utf-8", "replace")
    except (OSError, ValueError):
        return False
    session = transcripts.read(told.agent, text)
    return any(found.memory.outcome is Outcome.SUCCESS for found in findings(session))
