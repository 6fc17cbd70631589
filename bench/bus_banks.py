"""How long a memory takes from one bank to all, with real banks on real QUIC.

    python -m bench.bus_banks [BANKS ...]

All in one process on loopback, with the pace that users have; each bank joined one that was there
before, and some know one more. Measured is from the call that recorded the memory until the
last bank has it on disk.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
from pathlib import Path

from bench import tables
from reasonbank import Bank, Memory, Outcome, Principal, Scope, Settings
from reasonbank.peers import membership
from reasonbank.peers.bus import Bus
from reasonbank.peers.quic import Quic
from reasonbank.settings import Embed

SIZES = (3, 10, 30)
ROUNDS = 9
CHANNEL = "team:local/default"


async def measured(folder: Path, count: int) -> list[float]:
    rng = random.Random(count)
    settings = Settings(embed=Embed(model="hashed"))
    banks = [
        Bank.open(f"sqlite:///{folder}/{number}.db", workspace=folder / str(number),
                  settings=settings, principal=Principal.PERSON)
        for number in range(count)
    ]  # fmt: skip
    buses = [Bus(bank.context, Quic(membership.identity_of(bank.context))) for bank in banks]
    loop = asyncio.get_running_loop()
    running = []
    try:
        places = [await bus.listen("127.0.0.1:0") for bus in buses]
        for number in range(1, count):
            for other in {rng.randrange(number) for _ in range(2)}:
                invited = membership.invite(
                    banks[other].context, address=places[other], channels=[CHANNEL]
                )
                pasted = membership.read(invited.invitation)
                await buses[number].join(pasted, name=f"bank {other}")
        running = [loop.create_task(bus.run()) for bus in buses]
        await asyncio.sleep(2)
        return [await _one(banks, rng.randrange(count), number) for number in range(ROUNDS)]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for bus in buses:
            await bus.close()
        for bank in banks:
            bank.close(embed=False)


async def _one(banks: list[Bank], first: int, number: int) -> float:
    loop = asyncio.get_running_loop()
    lesson = Memory(title=f"Lesson {number}", description="when", content="Do it. " * 140,
                    outcome=Outcome.SUCCESS, scope=Scope.TEAM)  # fmt: skip
    recorded = await asyncio.to_thread(banks[first].record, lesson)
    began = loop.time()
    left = list(banks)
    while left:
        await asyncio.sleep(0.01)
        left = [bank for bank in left if not bank.store.ledger.read().taken(recorded.id)]
    return loop.time() - began


def main(sizes: list[int]) -> None:
    table = tables.Table(
        name="bus_banks",
        title="A memory from one bank to all, real banks on real QUIC",
        columns=("banks", "median s", "fastest s", "slowest s", "beside 3 banks"),
        notes=[f"Median of {ROUNDS} memories of 1 KB; of this, up to 0.33 s pass until a bank "
               "looks whether it has something to tell. All banks share one process, so that its "
               "work grows with their number."],
        machine=tables.machine(),
    )  # fmt: skip
    least = None
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measured(Path(folder), size))
        middle = statistics.median(found)
        least = least or middle
        table.add(f"{size}", f"{middle:.2f}", f"{min(found):.2f}", f"{max(found):.2f}",
                  f"{middle / least:.1f}")  # fmt: skip
    tables.show(table)
    tables.keep("bus_banks", table)
    tables.rewrite_document()


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or list(SIZES))
