"""Keeps a question and its answer, if they are worth it."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.bank import Bank
from reasonbank.fields import text
from reasonbank.learn.passive import worth_keeping
from reasonbank.ledger.port import Writing
from reasonbank.model import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """``id`` is the memory of the exchange; without one, ``reason`` says why not."""

    id: str | None
    reason: str

    def to_json(self) -> JSON:
        return {"kept": self.id is not None, "id": self.id, "reason": self.reason}


def capture(bank: Bank, question: str, answer: str, *, session: str | None = None) -> Captured:
    """The same exchange twice gives one memory, and a forgotten one does not come back."""
    limits = bank.settings.limits
    found = worth_keeping(
        text(question, "question", limits.query),
        text(answer, "answer", limits.trace),
        bank.settings.passive,
        workspace=bank.view.workspace,
        session=session,
    )
    if isinstance(found, str):
        return Captured(id=None, reason=found)
    memory = bank._fit(found)

    def work(txn: Writing) -> Captured:
        if txn.forgotten(memory.id):
            return Captured(id=None, reason="this exchange was forgotten for good")
        if txn.taken(memory.id):
            return Captured(id=memory.id, reason="this exchange is kept already")
        bank._record(txn, memory)
        return Captured(id=memory.id, reason="kept")

    result = bank._write(work)
    bank.core.indexing.wake()
    return result
