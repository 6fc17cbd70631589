"""What may be wrong with an installation: its settings first, then the bank that they name."""

from __future__ import annotations

from reasonbank.bank import Bank
from reasonbank.errors import ReasonBankError
from reasonbank.health import Check, examine_bank, failed
from reasonbank.settings import load


def examine(url: str | None, workspace: str | None) -> list[Check]:
    """Looks only; changes nothing but to create a bank that is not there yet."""
    try:
        settings = load()
    except ReasonBankError as error:
        return [failed("settings", error, "correct or remove the setting named here")]
    checks = [Check(name="settings", status="ok", found="valid")]
    try:
        bank = Bank.open(url, workspace=workspace, settings=settings, surface="doctor")
    except ReasonBankError as error:
        return [*checks, failed("store", error, "choose another place with --bank URL")]
    with bank:
        return [*checks, *examine_bank(bank.context, log=True)]
