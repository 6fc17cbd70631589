"""The model cache: how many calls it saves where the same is asked again.

    python -m bench.model_cache

Each night the same tasks are solved anew, as one does to see whether an agent has become worse. A
scripted model gives the same solution to the same task; thinking and distilling, which are meant
to vary, are asked for each time, evaluating and judging (temperature 0) need not be. Calls are
counted where the server would be; no time is measured, and no model's quality.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import tables
from reasonbank import Bank, Settings
from reasonbank.llm.cache import MemoryReplies
from reasonbank.llm.port import ModelCall, ModelMeters
from reasonbank.llm.scripted import Scripted
from reasonbank.opening import layered
from reasonbank.settings import LLM, Embed

TASKS = 20
NIGHTS = 5
SETTINGS = Settings(embed=Embed(model="hashed"), llm=LLM(max_tokens=4096))


def answered(call: ModelCall) -> Any:
    asked = (call.schema or {}).get("properties", {})
    if not asked:
        told = call.messages[-1].content
        return f"def solution():\n    return {hashlib.sha256(told.encode()).hexdigest()[:8]!r}"
    if "memories" in asked:
        return {"memories": []}
    if "outcome" in asked:
        return {"reason": "it reads well", "outcome": "success", "score": 90}
    return {"feedback": "good", "score": 0.9}


async def nights(bank: Bank, replies: MemoryReplies | None) -> ModelMeters:
    meters = ModelMeters()
    model = layered(Scripted(answered, meters=meters), SETTINGS, meters, replies)
    for _ in range(NIGHTS):
        for number in range(TASKS):
            task = f"Write a function that solves problem {number}"
            await bank.solve(task, model=model, mode="off", use_memory=False)
    return meters


def main() -> int:
    counted = {}
    for name, replies in (("without", None), ("with", MemoryReplies())):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            with Bank.open(
                f"sqlite:///{place}/bank.db", workspace=place, settings=SETTINGS
            ) as bank:
                counted[name] = asyncio.run(nights(bank, replies))
    without, cached = counted["without"], counted["with"]
    table = tables.Table(
        name="model_cache",
        title=f"The model cache: {TASKS} tasks, each solved in {NIGHTS} nights",
        columns=("", "calls", "hits", "misses", "not for a cache", "input tokens"),
    )
    for name, m in counted.items():
        table.add(f"{name} cache", m.calls, m.cache_hits, m.cache_misses, m.cache_bypasses,
                  f"{m.input_tokens:,}")  # fmt: skip
    saved = 1 - cached.calls / without.calls
    table.notes.append(
        f"{without.calls - cached.calls} of {without.calls} calls ({saved:.0%}) were not made."
    )
    tables.show(table)
    tables.keep("model_cache", table)
    return 0 if cached.calls < without.calls else 1


if __name__ == "__main__":
    sys.exit(main())
