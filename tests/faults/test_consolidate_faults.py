"""Consolidation under fire: killed at every step, twice at once, with sources that change."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from fault_tools import a_memory, child, open_bank, unlike_its_log
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import LeaseLost, Refused
from reasonbank.ledger.port import LEASE, Filter
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Link, LinkType, State
from reasonbank.store import leases
from reasonbank.tidy.consolidate import KIND, Result, carry_out, consolidate, look

NAMES = ("alpha", "beta")


def lesson(name: str, number: int) -> Any:
    words = " ".join(f"{name}{n}" for n in range(8))
    return a_memory(f"Lesson {words}", description=words, content=f"{words} {'again ' * number}")


def filled(bank: Bank) -> dict[str, list[str]]:
    """Two clusters of three, and a link to be inherited."""
    found = {name: [bank.record(lesson(name, n)).id for n in range(3)] for name in NAMES}
    alone = bank.record(a_memory("Something else altogether", content="a lone thought"))
    bank.link(alone.id, found["alpha"][0], type=LinkType.CAUSES)
    bank.embed_new()
    return found


def merged(bank: Bank, **options: Any) -> Result:
    async def run() -> Result:
        return await consolidate(bank.context, **options)

    return anyio.run(run)


def whole(bank: Bank, sources: list[str]) -> bool:
    """Whether this cluster is merged; half a merge fails here."""
    states = {bank.get(id).state for id in sources}
    into = {bank.get(id).merged_into for id in sources}
    assert len(states) == len(into) == 1, "some sources are merged and some are not"
    [heir] = into
    children = {b for a, b in bank.store.ledger.read().kin(sources) if a in sources}
    if states == {State.ACTIVE}:
        assert heir is None and not children
        return False
    memory = bank.get(heir)
    assert memory.state is State.ACTIVE and set(memory.parents) == set(sources)
    steps = bank.store.ledger.read().batches(bank.view)
    assert [s.payload["created"] for s in steps].count(heir) == 1
    return True


def run_until(path: Path, last: int) -> None:
    """Kills itself at the ``last`` of the steps: before and after each event and each commit."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_bank(path) as bank:
        ledger: Any = bank.store.ledger
        append, write = ledger.writer.append, ledger.write

        def appending(event: Any) -> None:
            step()
            append(event)
            step()

        def writing(work: Any) -> Any:
            result = write(work)
            step()
            return result

        ledger.writer.append = appending
        ledger.write = writing
        merged(bank)


@requirement("CSL-4")
def test_killed_at_every_step_each_cluster_is_merged_or_is_not(path: Path) -> None:
    with open_bank(path) as bank:
        clusters = filled(bank)
    original = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    seen = set()
    for last in range(1, 200):
        for file in path.parent.iterdir():
            file.unlink()
        for name, content in original.items():
            (path.parent / name).write_bytes(content)
        with child(run_until, path, last) as process:
            process.join(60)
            ended = process.exitcode
        with open_bank(path, clock=lambda: time.time_ns() // 1000 + LEASE) as bank:
            assert bank.store.ledger.check() == []
            seen.add(tuple(whole(bank, clusters[name]) for name in NAMES))
            if ended == 0:
                break
            assert ended == -signal.SIGKILL
            merged(bank, force=True)
            assert all(whole(bank, clusters[name]) for name in NAMES), "the next run ends it"
            assert len(bank.memories(Filter(states=tuple(State)))) == 9, (
                "and nothing is there twice"
            )
        if last % 10 == 0:
            assert unlike_its_log(path) == {}
    assert ended == 0 and last > 20
    assert {(False, False), (True, True)} < seen, "kills fell before, between and after"


def test_of_two_consolidations_at_once_one_does_the_work(path: Path) -> None:
    with open_bank(path) as bank, open_bank(path) as other:
        clusters = filled(bank)
        entered, go_on = anyio.Event, None
        results: list[Any] = []

        async def both() -> None:
            nonlocal go_on
            asked, go_on = entered(), entered()

            async def pause(_: float) -> None:
                asked.set()
                await go_on.wait()

            model = Scripted(lambda call: "never mind", delay=1, sleep=pause)

            async def first() -> None:
                results.append(await consolidate(bank.context, model=model))

            async with anyio.create_task_group() as group:
                group.start_soon(first)
                await asked.wait()
                with pytest.raises(Refused, match="under way"):
                    await consolidate(other.context, force=True)
                go_on.set()

        anyio.run(both)
        assert len(results) == 1 and results[0].created == []
        assert not any(whole(bank, clusters[name]) for name in NAMES)
        assert len(merged(other, force=True).created) == 2


def test_whoever_lost_the_turn_changes_nothing_more(path: Path) -> None:
    with open_bank(path) as bank:
        clusters = filled(bank)
        found, _ = look(bank.context)
        lost = leases.take(bank.context, KIND, hours=0)
        assert lost is not None
        later = open_bank(path, clock=lambda: time.time_ns() // 1000 + 2 * LEASE)
        with later:
            assert leases.take(later.context, KIND, hours=0) is not None

            async def late() -> None:
                await carry_out(bank.context, found, lost)

            with pytest.raises(BaseExceptionGroup) as caught:
                anyio.run(late)
            assert caught.group_contains(LeaseLost)
        assert not any(whole(bank, clusters[name]) for name in NAMES)


CHANGES = {
    "edited": lambda bank, id: bank.update(id, title="Changed while it was being merged"),
    "forgotten": lambda bank, id: bank.forget(id),
    "archived": lambda bank, id: bank.archive(id),
    "restored": lambda bank, id: (bank.archive(id), bank.restore(id)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_source_that_changes_while_its_merge_is_written_stops_that_merge(
    path: Path, change: Any
) -> None:
    with open_bank(path) as bank:
        clusters = filled(bank)
        victim = clusters["alpha"][1]
        others = [id for id in clusters["alpha"] if id != victim]

        def answer(call: Any) -> Any:
            asked = call.messages[-1].content
            name = "alpha" if "alpha0" in asked else "beta"
            if name == "alpha":
                change(bank, victim)
            words = " ".join(f"{name}{n}" for n in range(8))
            return {
                "title": words, "description": words, "content": words, "tags": [],
                "outcome": "success", "attribution": words, "contradiction": "", "different": "",
            }  # fmt: skip

        result = merged(bank, model=Scripted(answer))
        assert len(result.created) == 1 and whole(bank, clusters["beta"])
        assert any("meanwhile" in skip.reason for skip in result.skipped)
        assert {bank.get(id).state for id in others} == {State.ACTIVE}
        assert all(bank.get(id).merged_into is None for id in others)


def test_a_link_to_what_was_forgotten_meanwhile_is_not_drawn(path: Path) -> None:
    with open_bank(path) as bank:
        one, other = bank.record(lesson("alpha", 0)), bank.record(lesson("beta", 0))
        found, _ = look(bank.context)
        from dataclasses import replace

        wanted = Link(source=one.id, target=other.id, type=LinkType.SIMILAR, strength=0.7)
        job = leases.take(bank.context, KIND, hours=0)
        assert job is not None
        bank.forget(other.id)

        async def run() -> Result:
            return await carry_out(bank.context, replace(found, links=(wanted,)), job)

        assert anyio.run(run).links == 0 and bank.links(one.id) == []
