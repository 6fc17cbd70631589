"""Ten banks over real QUIC and a bad network: what they do, and whether they end up equal."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress

from tests.peers.banks import TEAM, Member, a_lesson
from tests.peers.relay import Relay

from reasonbank.errors import ReasonBankError
from reasonbank.model import LinkType
from reasonbank.peers import membership
from reasonbank.peers.bus import Bus, Pace
from reasonbank.peers.quic import Quic
from reasonbank.peers.transport import Limits

PACE = Pace(look=0.05, tick=0.5, soonest=0.1, latest=0.5, patience=1.0)
LIMITS = Limits(idle=3.0, handshake=3.0)
MOST_SECONDS = 180
WEATHER = {"delay": 0.002, "jitter": 0.004, "drop": 0.02, "duplicate": 0.02}


class Banker:
    """A bank and its bus, which can be stopped without a word."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.quic = Quic(member.identity, limits=LIMITS)
        self.bus: Bus
        self.running: asyncio.Task[None]
        self.at = "127.0.0.1:0"

    async def start(self) -> None:
        self.bus = Bus(self.member.bank.context, self.quic, pace=PACE)
        self.at = await self.bus.listen(self.at)
        self.running = asyncio.get_running_loop().create_task(self.bus.run())

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running
        await self.bus.close()

    async def crash(self) -> None:
        """The program is gone from one moment to the next, and comes again with its disk."""
        for talk in list(self.bus.talks.values()):
            talk.connection.fail("crashed")
        await self.stop()
        self.member.close()
        self.member.open()
        await self.start()


async def ten_banks(folder, seed: int, *, banks: int, operations: int, trusted: bool) -> dict:
    """Returns what the banks say of what they know, by name, once they have nothing to add."""
    rng = random.Random(seed)
    async with AsyncExitStack() as stack:
        bankers = [Banker(Member(folder, f"bank{number}")) for number in range(banks)]
        for banker in bankers:
            await banker.start()
        relays = await _joined(stack, bankers, rng, seed, trusted=trusted)
        try:
            doing = _Doing(rng, bankers)
            for number in range(operations):
                doing.one()
                if rng.random() < 8 / operations:
                    for relay in rng.sample(relays, rng.randint(1, len(relays))):
                        relay.parted = not relay.parted
                if rng.random() < 3 / operations:
                    await rng.choice(bankers).crash()
                await asyncio.sleep(0.002 if number % 10 else 0.02)
            for relay in relays:
                relay.parted = False
            await _until_equal(bankers)
            return {each.member.name: said(each.member) for each in bankers}
        finally:
            for banker in bankers:
                await banker.stop()
                banker.member.close()


async def _joined(stack, bankers, rng, seed, *, trusted):
    """Everybody with somebody who was there before, and a few more."""
    pairs = {(rng.randrange(each), each) for each in range(1, len(bankers))}
    pairs |= {tuple(sorted(rng.sample(range(len(bankers)), 2))) for _ in range(len(bankers) // 2)}
    relays = []
    for number, (called, caller) in enumerate(sorted(pairs)):
        one, other = bankers[called].member, bankers[caller].member
        relay = Relay(bankers[called].at, seed=1000 * seed + number, **WEATHER)
        relays.append(await stack.enter_async_context(relay))
        invited = membership.invite(one.bank.context, address=relay.address, channels=[TEAM])
        pasted = membership.read(invited.invitation)
        membership.admit(one.bank.context, other.key, other.name, pasted.token)
        membership.joined(other.bank.context, pasted, one.name)
    if trusted:
        for one in bankers:
            for other in bankers:
                if one is not other:
                    _vouch(one.member, other.member)
    return relays


def _vouch(one, other):
    """Whoever is trusted need not be somebody that one talks to."""
    from dataclasses import replace

    from reasonbank.ledger.port import Peer

    def work(txn):
        known = txn.peers.peer(other.key.hex())
        peer = known or Peer(key=other.key.hex(), name=other.name, added_at=0)
        txn.peers.put(replace(peer, trusted=True))

    one.bank.context.write(work)


class _Doing:
    """What people do with their banks."""

    def __init__(self, rng, bankers):
        self.rng = rng
        self.bankers = bankers
        self.own = {banker.member.name: [] for banker in bankers}
        self.count = 0

    def one(self):
        self.count += 1
        banker = self.rng.choice(self.bankers)
        member = banker.member
        own = self.own[member.name]
        kind = self.rng.choice(["record"] * 3 + ["update", "archive", "restore", "forget", "link"]
                               + ["feedback", "outcome"] * 3)  # fmt: skip
        if kind == "record" or not own:
            own.append(member.bank.record(a_lesson(f"Lesson {self.count}", f"Do {self.count}.")).id)
            return
        id = self.rng.choice(own)
        with suppress(ReasonBankError):
            match kind:
                case "update":
                    member.bank.update(id, content=f"Do it anew {self.count}.")
                case "archive":
                    member.bank.archive(id)
                case "restore":
                    member.bank.restore(id)
                case "forget":
                    member.bank.forget(id)
                case "link":
                    member.bank.link(id, self.rng.choice(own), type=LinkType.SIMILAR)
                case _:
                    self._judge(member, kind)

    def _judge(self, member, kind):
        """Of whatever is known there, whoever wrote it."""
        found = member.db.all("select id from memories order by id")
        if not found:
            return
        id = self.rng.choice(found)[0]
        good = self.rng.random() < 0.5
        if kind == "feedback":
            member.bank.feedback(id, helpful=good, session=self.rng.choice([None, "a", "b"]))
        else:
            member.bank.outcome(id, succeeded=good, session=f"task {self.rng.randrange(20)}")


async def _until_equal(bankers):
    loop = asyncio.get_running_loop()
    end = loop.time() + MOST_SECONDS
    while loop.time() < end:
        await asyncio.sleep(0.3)
        heads = [_heads(each.member) for each in bankers]
        if all(each == heads[0] for each in heads) and not any(map(_has_more_to_tell, bankers)):
            return


def _has_more_to_tell(banker):
    member = banker.member
    own = [log for log in member.bank.context.read().peers.logs()
           if log.key == member.key.hex()]  # fmt: skip
    last = member.bank.context.read().last_seq()
    return not own or max(log.read_to for log in own) < last


def _heads(member):
    return {head.log: (head.length, head.link, head.fork) for head in member.logs.heads([TEAM])}


def said(member) -> dict:
    """All that a bank knows of what is shared, without what is its own business."""
    db = member.db
    memories = db.all(
        "select id, lesson->>'title', lesson->>'content', state, revision from memories"
    )
    # What was forgotten before anybody heard of it is no business of theirs.
    gone = db.all("select id from tombstones where id in (select subject from log_entries)")
    evidence = db.all(
        "select id, kind, positive, coalesce(session, ''), counter, event from evidence"
        " join memories using (num) where kind != 'usage'"
    )
    return {
        "logs": _heads(member),
        "memories": {id: told for id, *told in memories},
        "gone": sorted(gone),
        "evidence": sorted(evidence),
        "links": sorted(db.all("select source, target, type from links")),
    }
