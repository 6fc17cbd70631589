"""What may be wrong with an installation, and the command that repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reasonbank.errors import ReasonBankError

if TYPE_CHECKING:
    from reasonbank.bank import Bank


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


def examine_bank(bank: Bank) -> Iterator[Check]:
    import apsw

    core = bank.core
    ledger = core.ledger
    yield Check(name="SQLite", status="ok", found=apsw.sqlite_lib_version())
    problems = ledger.check()
    if problems:
        repair = "reasonbank export backup.jsonl; then import it into a new bank"
        yield Check(name="store", status="fail", found="; ".join(problems), repair=repair)
    else:
        yield Check(name="store", status="ok", found=ledger.url)
    yield _disk(bank)
    yield _embedder(bank)
    yield _vectors(bank)
    yield Check(
        name="workspace",
        status="ok",
        found=f"{bank.view.workspace} (team {bank.view.team}, org {bank.view.org})",
    )
    yield Check(name="belief", status="ok", found=bank.settings.belief.model)


def _disk(bank: Bank) -> Check:
    from reasonbank.opening import sqlite_path

    free = shutil.disk_usage(sqlite_path(bank.core.ledger.url).parent).free
    shown = f"{free / 1e9:.1f} GB free"
    if free < 100e6:
        return Check(name="disk", status="warn", found=shown, repair="free some space")
    return Check(name="disk", status="ok", found=shown)


def _embedder(bank: Bank) -> Check:
    embedder = bank.core.indexing.embedder
    try:
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
