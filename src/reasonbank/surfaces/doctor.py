"""What may be wrong with an installation, and the command that repairs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reasonbank.errors import ReasonBankError
from reasonbank.model import JSON, plain

if TYPE_CHECKING:
    from reasonbank.bank import Bank

STUCK_MINUTES = 10
"""From then on, a job that nobody works on is worth a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    status: str
    """ok, warn or fail."""
    found: str
    repair: str | None = None


def examine(url: str | None, workspace: str | None) -> list[Check]:
    """Looks only; changes nothing but to create a bank that is not there yet."""
    from reasonbank.settings import load

    try:
        settings = load()
    except ReasonBankError as error:
        return [_fail("settings", error, "correct or remove the setting named here")]
    checks = [Check(name="settings", status="ok", found="valid")]
    from reasonbank.bank import Bank

    try:
        bank = Bank.open(url, workspace=workspace, settings=settings, surface="doctor")
    except ReasonBankError as error:
        return [*checks, _fail("store", error, "choose another place with --bank URL")]
    with bank:
        return [*checks, *examine_bank(bank)]


def _fail(name: str, error: Exception, repair: str) -> Check:
    return Check(name=name, status="fail", found=str(error), repair=repair)


def health(bank: Bank, *, deep: bool = True) -> list[Check]:
    """The parts that a bank needs.

    ``deep`` also reads the whole store and the embedder's file, and asks the model's server.
    Without it, this takes some milliseconds: for a server that is asked whether it is ready.
    """
    return [
        _store(bank, deep=deep),
        *_disk(bank),
        _embedder(bank, deep=deep),
        _model(bank, deep=deep),
        _queue(bank),
    ]


def verdict(checks: Iterable[Check]) -> str:
    """The worst of them: ok, warn or fail."""
    found = {check.status for check in checks}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def examine_bank(bank: Bank) -> Iterator[Check]:
    engine, version = bank.core.ledger.engine
    yield Check(name=engine, status="ok", found=version)
    yield from health(bank)
    yield _vectors(bank)
    yield Check(
        name="workspace",
        status="ok",
        found=f"{bank.view.workspace} (team {bank.view.team}, org {bank.view.org})",
    )
    yield Check(name="belief", status="ok", found=bank.settings.belief.model)


def report(bank: Bank) -> JSON:
    """All that was found, under the names that agents know."""
    checks = list(examine_bank(bank))
    numbers = bank.statistics()
    status = {"ok": "healthy", "warn": "degraded", "fail": "unhealthy"}[verdict(checks)]
    return {
        "status": status,
        "uptime": numbers["process"]["uptime"],
        "memory_count": numbers["memories"],
        "cache_hit_rate": numbers["cache_hit_rate"],
        "checks": plain(checks),
    }


def _store(bank: Bank, *, deep: bool) -> Check:
    ledger = bank.core.ledger
    try:
        ledger.read().place(bank.view.workspace)
        problems = ledger.check(deep=deep)
    except ReasonBankError as error:
        return _fail("store", error, "stop all programs that use it, then run: reasonbank doctor")
    if problems:
        repair = "reasonbank export backup.jsonl; then import it into a new bank"
        return Check(name="store", status="fail", found="; ".join(problems), repair=repair)
    return Check(name="store", status="ok", found=ledger.url)


def _disk(bank: Bank) -> Iterator[Check]:
    try:
        free = bank.core.ledger.room()
    except OSError as error:
        found, repair = f"cannot tell: {error.strerror}", "see that the disk is there"
        yield Check(name="disk", status="warn", found=found, repair=repair)
        return
    if free is not None:
        shown = f"{free / 1e9:.1f} GB free"
        if free < 100e6:
            yield Check(name="disk", status="warn", found=shown, repair="free some space")
        else:
            yield Check(name="disk", status="ok", found=shown)


def _model(bank: Bank, *, deep: bool) -> Check:
    """Only ``deep`` asks the model's server, which may be far away."""
    from reasonbank.opening import model_status

    llm = bank.settings.llm
    if llm.provider == "none":
        return Check(name="model", status="ok", found="none configured, and none is needed")
    name = f"{llm.model} of {llm.provider}"
    if not deep:
        return Check(name="model", status="ok", found=name)
    try:
        answer = model_status(bank.settings)
    except ReasonBankError as error:
        return _fail("model", error, "set the variable that is named here, then start again")
    if isinstance(answer, str):
        return Check(
            name="model",
            status="warn",
            found=f"{name} does not answer ({answer}); sessions wait in the queue",
            repair="start the model's server, or correct llm.base_url",
        )
    if answer == 401:
        return Check(
            name="model", status="fail", found=f"{name} does not accept the key",
            repair="set a valid key, then start again",
        )  # fmt: skip
    if answer >= 500:
        found = f"{name} answers with status {answer}; sessions wait in the queue"
        return Check(name="model", status="warn", found=found, repair="look after that server")
    return Check(name="model", status="ok", found=f"{name} answers")


def _queue(bank: Bank) -> Check:
    core = bank.core
    try:
        depth = core.ledger.read().queue.depth(None)
    except ReasonBankError as error:
        return _fail("queue", error, "reasonbank doctor")
    waited = (core.clock() - depth.oldest) / 60e6 if depth.oldest is not None else 0.0
    found = f"{depth.waiting} waiting, {depth.running} running, {depth.dead} failed for good"
    if depth.waiting and not depth.running and waited > STUCK_MINUTES:
        found += f"; the oldest has waited for {waited:.0f} minutes"
        return Check(name="queue", status="warn", found=found, repair="reasonbank worker")
    if depth.dead:
        repair = "reasonbank queue list --state dead; then queue retry ID, or queue drop ID"
        return Check(name="queue", status="warn", found=found, repair=repair)
    return Check(name="queue", status="ok", found=found)


def _embedder(bank: Bank, *, deep: bool) -> Check:
    embedder = bank.core.indexing.embedder
    try:
        if deep:
            embedder.verify()
        embedder.embed(["does it answer?"])
    except ReasonBankError as error:
        built_in = bank.settings.embed.model in ("minilm", "hashed")
        repair = "pip install --force-reinstall reasonbank"
        return _fail("embedder", error, repair if built_in else "correct the settings of embed")
    if not embedder.semantic:
        return Check(
            name="embedder",
            status="warn",
            found=f"{embedder.name}: degraded, it knows nothing of meaning",
            repair="set embed.model to minilm, then run: reasonbank reindex",
        )
    where = "asked over HTTP" if bank.settings.embed.model == "api" else "offline"
    return Check(name="embedder", status="ok", found=f"{embedder.name}, {where}")


def _vectors(bank: Bank) -> Check:
    indexing = bank.core.indexing
    new, foreign = bank.core.ledger.read().unembedded_count(indexing.embedder.name)
    if new + foreign:
        return Check(
            name="vectors",
            status="warn",
            found=f"{new} memories not embedded, {foreign} by another model",
            repair="reasonbank reindex",
        )
    indexing.follow()
    return Check(name="vectors", status="ok", found=f"{len(indexing.index)} in step with the store")
