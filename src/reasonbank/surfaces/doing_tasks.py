"""Tasks that other banks offer, done with this bank's model, if `serve --tasks` says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reasonbank.model import JSON

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.peers.tasks import Solver

MILLION = 1_000_000


def solver_of(bank: Bank) -> Solver:
    async def solve(task: str) -> tuple[JSON, int]:
        before = _cost(bank)
        # What strangers want done is not learned from here; they learn from what comes back.
        found = await bank.solve(task, store=False)
        steps = [
            {"iteration": number, "action": "attempt", "content": attempt.text}
            for number, attempt in enumerate(found.attempts)
        ]
        trace = {"task": task, "trajectory": steps, "outcome": str(found.outcome)}
        return trace, round((_cost(bank) - before) * MILLION)

    return solve


def _cost(bank: Bank) -> float:
    """Dollars that the models of this process have cost for this bank."""
    counted = bank.store.model.to_json() if bank.store.model is not None else {}
    return float(counted.get("cost") or 0.0)
