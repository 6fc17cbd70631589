"""Banks that were parted, and whose programs died, end up equal: over real QUIC."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.faults.fault_tools import keep_count, scaled
from tests.peers.banks import TEAM, Member, a_lesson
from tests.peers.convergence import Banker, ten_banks
from tests.requirement import requirement

from reasonbank.peers import membership, merge, publish, wire
from reasonbank.peers.bus import Bus
from reasonbank.peers.logs import LedgerLogs


@requirement("BUS-1", "BUS-4")
@pytest.mark.slow
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "probation"])
def test_after_any_partition_heals_all_banks_are_equal_and_evidence_counts_once(tmp_path, trusted):
    """In a soak with 50 seeds each, ten banks and 1,000 operations."""
    seeds = scaled("REASONBANK_TEST_BUS_SEEDS", 1)
    first = scaled("REASONBANK_TEST_SEED", 0)
    banks = scaled("REASONBANK_TEST_BUS_BANKS", 5)
    operations = scaled("REASONBANK_TEST_BUS_OPERATIONS", 120)
    for seed in range(first, first + seeds):
        folder = tmp_path / str(seed)
        folder.mkdir()
        told = asyncio.run(
            ten_banks(folder, seed, banks=banks, operations=operations, trusted=trusted)
        )
        one, *others = told.values()
        for other in others:
            for what, known in one.items():
                assert other[what] == known, f"seed {seed}: {what}"
        assert one["memories"] and one["evidence"]
    keep_count(f"bus, trusted {trusted}", {"seeds": seeds, "banks": banks,
               "operations in each": operations})  # fmt: skip


@requirement("BUS-4")
@pytest.mark.parametrize("word", ["join", "sync"])
def test_who_joins_or_syncs_is_not_cut_short_by_its_own_server(tmp_path, monkeypatch, word):
    """Both have one key, and the other bank talks to one of them at a time."""
    monkeypatch.setattr(merge, "MOST_ENTRIES", 1)
    monkeypatch.setattr(wire, "MOST_ENTRIES", 1)
    monkeypatch.setattr(publish, "_EVERY", 1)
    take = LedgerLogs.take

    def slowly(logs, segment, via):
        time.sleep(0.12)
        return take(logs, segment, via)

    monkeypatch.setattr(LedgerLogs, "take", slowly)

    async def scene():
        anna, bert = Banker(Member(tmp_path, "anna")), Banker(Member(tmp_path, "bert"))
        await anna.start()
        await bert.start()
        pasted = membership.read(
            membership.invite(anna.member.bank.context, address=anna.at, channels=[TEAM]).invitation
        )
        once = Bus(bert.member.bank.context, bert.quic)
        if word == "sync":
            first = await bert.bus.join(pasted)
            await first.connection.close("begins anew, as a server would")
            while bert.bus.talks.get(anna.member.key) in (None, first):
                await asyncio.sleep(0.02)
        anna.running.cancel()  # She has no time to tell of these by herself.
        for number in range(12):
            anna.member.bank.record(a_lesson(f"Lesson {number}"))
        if word == "join":
            talk = await once.join(pasted)
            await once.until_quiet(talk)
        else:
            talk = await once.sync(membership.find(bert.member.bank.context, anna.member.key.hex()))
        assert talk.unfinished is None
        assert len(bert.member.titles()) == 12
        await once.close()
        async with asyncio.timeout(60):
            while anna.member.key not in bert.bus.talks:  # Its server is in touch again.
                await asyncio.sleep(0.02)
        for banker in (anna, bert):
            await banker.stop()
            banker.member.close()

    asyncio.run(scene())


@requirement("BUS-4")
def test_two_that_meet_once_tell_each_other_everything_however_long_one_thinks(
    tmp_path, monkeypatch
):
    """Many segments, and a machine that has something else to do as well."""
    monkeypatch.setattr(merge, "MOST_ENTRIES", 2)
    monkeypatch.setattr(wire, "MOST_ENTRIES", 2)
    monkeypatch.setattr(publish, "_EVERY", 1)
    take = LedgerLogs.take

    def slowly(logs, segment, via):
        time.sleep(1)
        return take(logs, segment, via)

    monkeypatch.setattr(LedgerLogs, "take", slowly)

    async def scene():
        anna, bert = Banker(Member(tmp_path, "anna")), Banker(Member(tmp_path, "bert"))
        for banker in (anna, bert):
            for number in range(4):
                banker.member.bank.record(a_lesson(f"{number} of {banker.member.name}"))
        await anna.start()
        bert.bus = Bus(bert.member.bank.context, bert.quic)
        invited = membership.invite(anna.member.bank.context, address=anna.at, channels=[TEAM])
        talk = await bert.bus.join(membership.read(invited.invitation))
        seen = []
        talk.progress = lambda done, total: seen.append((done, total))
        await bert.bus.until_quiet(talk)
        assert talk.unfinished is None
        assert seen[-1] == (talk.new, talk.new) == (5, 5)
        await bert.bus.close()
        await anna.stop()
        assert len(anna.member.titles()) == 8
        assert anna.member.titles() == bert.member.titles()
        for banker in (anna, bert):
            banker.member.close()

    asyncio.run(scene())
