"""Tasks that other banks offer, done with this bank's model, if `serve --tasks` says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import anyio.to_thread

from reasonbank.agent.solution import Metered, Solution
from reasonbank.agent.solve import solve
from reasonbank.errors import BudgetExhausted, ReasonBankError
from reasonbank.llm.port import Completion, Model, ModelCall
from reasonbank.model import JSON, Scope
from reasonbank.opening import needed_model
from reasonbank.peers import membership
from reasonbank.peers.capability import Operation
from reasonbank.peers.publish import realm_of
from reasonbank.peers.tasks import in_vain
from reasonbank.search.inject import CHECKED

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.ledger.port import TaskOffer
    from reasonbank.peers.tasks import Solver

MILLION = 1_000_000


class Within(Metered):
    """A model that is asked nothing more once what may be spent is spent: what is under way then
    is the last. A reply whose server does not say what it cost has cost nothing."""

    def __init__(self, inner: Model, most: int) -> None:
        super().__init__(inner)
        self._most = most

    async def answer(self, call: ModelCall) -> Completion:
        if self.spent and self.spent >= self._most:
            what = f"the ${self._most / MILLION:.2f} that may be spent on this task are used up"
            raise BudgetExhausted(what, what=what)
        return await super().answer(call)

    @property
    def spent(self) -> int:
        """Millionths of a dollar."""
        return round((self._meters.cost or 0.0) * MILLION)


def solver_of(bank: Bank) -> Solver:
    async def done(offer: TaskOffer) -> tuple[JSON, int]:
        model = Within(needed_model(bank.store), offer.most)
        try:
            scopes = await anyio.to_thread.run_sync(_scopes, bank, offer.peer or "")
            # What strangers want done is not learned from here; they learn from what comes back.
            found = await solve(
                bank.context, offer.task, model=model, store=False, use_memory=bool(scopes),
                filter=replace(CHECKED, scopes=scopes),
            )  # fmt: skip
            return _told(offer, found), model.spent
        except BudgetExhausted as error:
            if isinstance(error.best, Solution):
                return _told(offer, error.best, str(error)), model.spent
            return in_vain(offer.task, str(error)), model.spent
        except ReasonBankError as error:
            return in_vain(offer.task, str(error)), model.spent
        finally:
            await model.close()

    return done


def _scopes(bank: Bank, key: str) -> tuple[Scope, ...]:
    """What is known here that the bank may know that offers the task: what is shown to the model
    it can have told."""
    reading = bank.context.read().peers
    peer = reading.peer(key)
    if peer is None:
        return ()
    channels = membership.may(bank.context, None, peer).where(Operation.READ)
    realms = {realm_of(channel, reading.projects()) for channel in channels}
    return tuple(scope for scope in Scope if bank.view.realm(scope) in realms)


def _told(offer: TaskOffer, found: Solution, *more: str) -> JSON:
    said = [("attempt", attempt.text) for attempt in found.attempts]
    steps = [
        {"iteration": number, "action": action, "content": content}
        for number, (action, content) in enumerate([*said, *(("given up", each) for each in more)])
    ]
    return {"task": offer.task, "trajectory": steps, "outcome": str(found.outcome)}
