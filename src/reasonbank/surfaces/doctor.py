"""What may be wrong with an installation: its settings first, then the bank that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from reasonbank.bank import Bank
from reasonbank.errors import ReasonBankError
from reasonbank.health import Check, examine_bank, failed
from reasonbank.ledger.port import Ledger
from reasonbank.opening import absent, no_bank, quicken
from reasonbank.settings import load
from reasonbank.surfaces.hooks import fired
from reasonbank.surfaces.install.look import State, look
from reasonbank.surfaces.install.wiring import agent_named
from reasonbank.testing.memory_ledger import MemoryLedger


def examine(url: str | None, workspace: str | None) -> list[Check]:
    """Looks only: where there is no bank yet, the rest is examined without one."""
    try:
        settings = load()
    except ReasonBankError as error:
        return [failed("settings", error, "correct or remove the setting named here")]
    checks = [Check(name="settings", status="ok", found="valid"), *connected(os.environ)]
    ledger: Ledger | None = None
    try:
        if (missing := absent(url, settings)) is not None:
            if url or settings.url:
                raise no_bank(missing)
            checks.append(Check(name="bank", status="ok", found=f"none yet; to be at {missing}"))
            ledger = MemoryLedger()
        bank = Bank.open(
            url, workspace=workspace, settings=settings, surface="doctor", ledger=ledger
        )
    except ReasonBankError as error:
        return [*checks, failed("store", error, "choose another place with --bank URL")]
    with bank:
        quicken(bank.store)  # To see whether the servers of this installation can.
        return [*checks, *examine_bank(bank.context, log=True)]


def connected(environment: Mapping[str, str]) -> Iterator[Check]:
    """The agents of this user. That one is not connected is no fault."""
    for state in look(environment):
        title, install = agent_named(state.agent).title, f"reasonbank install {state.agent}"
        if state.problem:
            repair = "correct the file named here"
            yield Check(name=title, status="warn", found=state.problem, repair=repair)
        elif state.program is None and not state.events:
            yield Check(name=title, status="ok", found=f"not connected; to do so: {install}")
        elif wrong := [*_wrong(state)]:
            yield Check(name=title, status="warn", found="; ".join(wrong), repair=install)
        else:
            yield _called(title, state, environment)


def _wrong(state: State) -> Iterator[str]:
    if state.program is None:
        yield "its hooks are there, the server is not"
    elif not state.there:
        yield f"it starts {state.program}, which is not there"
    if not state.allowed:
        yield "it may not call the tools unasked"
    if state.missing:
        yield f"no hook is called at: {', '.join(state.missing)}"


def _called(title: str, state: State, environment: Mapping[str, str]) -> Check:
    calls = fired.last(state.agent, environment)
    if not calls:
        return Check(name=title, status="ok", found="connected; no hook was called yet")
    event, (at, word) = max(calls.items(), key=lambda call: call[1][0])
    found = f"connected; last hook: {event}, {_ago(at)} ({word or 'unknown'})"
    if word.startswith("failed"):
        repair = "see what is said of the store here"
        return Check(name=title, status="warn", found=found, repair=repair)
    return Check(name=title, status="ok", found=found)


def _ago(at: datetime) -> str:
    minutes = max(0, round((datetime.now(UTC) - at).total_seconds() / 60))
    for size, unit in ((1440, "day"), (60, "hour"), (1, "minute")):
        if (count := minutes // size) or size == 1:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return ""
