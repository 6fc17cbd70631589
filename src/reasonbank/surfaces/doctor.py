"""What may be wrong with an installation: its settings first, then the bank that they name."""

from __future__ import annotations

from reasonbank.bank import Bank
from reasonbank.errors import ReasonBankError
from reasonbank.health import Check, examine_bank, failed
from reasonbank.ledger.port import Ledger
from reasonbank.opening import absent, no_bank
from reasonbank.settings import load
from reasonbank.testing.memory_ledger import MemoryLedger


def examine(url: str | None, workspace: str | None) -> list[Check]:
    """Looks only: where there is no bank yet, the rest is examined without one."""
    try:
        settings = load()
    except ReasonBankError as error:
        return [failed("settings", error, "correct or remove the setting named here")]
    checks = [Check(name="settings", status="ok", found="valid")]
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
        return [*checks, *examine_bank(bank.context, log=True)]
