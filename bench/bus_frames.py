"""What the bus costs without a network: frames beside JSON, verification, how far news has to go.

    python -m bench.bus_frames [--most 10000]

Memories reach up to ``--most`` banks by the gossip that real banks run; only the network between
them is on paper: every frame takes one round, and each bank talks to about thirty others at most.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from bench import tables
from reasonbank.peers import wire
from reasonbank.peers.gossip import Frames, Node
from reasonbank.peers.identity import Identity
from reasonbank.peers.merge import verified
from reasonbank.peers.wire import Announce, Log, Segment, Want
from reasonbank.testing.memory_logs import MemoryLogs

CHANNEL = "team:acme/blue"
MOST_PEERS = 30
ROUND_TRIP = 0.020
"""Seconds, of which a frame takes half."""
SIZES = (3, 10, 30, 100, 1_000, 10_000)


# Frames


def a_segment(entries: int, size: int = 1_000) -> Segment:
    """Memories of about a kilobyte, as they travel."""
    ann, logs = Identity.of("ann"), MemoryLogs()
    log = Log(ann.key, "first", CHANNEL)
    rng = random.Random(entries)
    said = [
        json.dumps({"content": "".join(rng.choices("abcdefgh ", k=size))}) for _ in range(entries)
    ]
    logs.append(ann, log, *(each.encode() for each in said))
    found = logs.segment(log, 0)
    assert found is not None
    return found


def as_json(segment: Segment) -> bytes:
    """The same in JSON, which has no bytes: keys and hashes are base64, payloads plain texts."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    return json.dumps(
        {
            "log": [text(segment.log.key), segment.log.epoch, segment.log.channel],
            "entries": [
                [each.seq, text(each.prev), text(each.digest), each.id, each.type, each.subject,
                 each.workspace, each.counter, each.at, each.author, each.principal, each.surface,
                 text(each.salt), each.payload.decode() if each.payload else None]
                for each in segment.entries
            ],
            "signature": text(segment.signature),
        }
    ).encode()  # fmt: skip


def from_json(data: bytes) -> Segment:
    """Checked no further than that the parts are there."""

    def back(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    read = json.loads(data)
    key, epoch, channel = read["log"]
    entries = [
        wire.Entry(seq, back(prev) or b"", back(digest) or b"", *middle, back(salt),
                   payload.encode() if payload is not None else None)
        for seq, prev, digest, *middle, salt, payload in read["entries"]
    ]  # fmt: skip
    return Segment(Log(back(key) or b"", epoch, channel), entries, back(read["signature"]) or b"")


def microseconds(work: Callable[[], object], repeat: int = 31) -> float:
    """The median of single calls: other work on the machine does not count as ours."""
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def frames() -> tables.Table:
    table = tables.Table(
        name="bus_frames",
        title="What a frame costs, beside the same in Python's JSON",
        notes=["Memories of about 1 KB. JSON has no bytes: hashes are base64 there, and nothing is "
               "checked; a frame is checked whole when it is decoded. Verified: the links of all "
               "entries, their payloads, and one signature of Ed25519."],
        machine=tables.machine(),
    )  # fmt: skip
    for count in (1, 32):
        segment = a_segment(count)
        data, text = wire.encode(segment), as_json(segment)
        assert wire.decode(data) == from_json(text) == segment
        kilobytes = len(data) / 1024
        for what, ours, theirs in (
            ("encode", partial(wire.encode, segment), partial(as_json, segment)),
            ("decode", partial(wire.decode, data), partial(from_json, text)),
        ):
            here, there = microseconds(ours) / kilobytes, microseconds(theirs) / kilobytes
            table.compare(
                f"{what} a segment of {count}", here, "json", there, unit="µs/KB",
                also=here <= 10, most=1, target=", ≤ 10 µs/KB",
            )  # fmt: skip
    alone = microseconds(partial(verified, a_segment(1, 600)))
    for count in (32, 128, 512):
        each = microseconds(partial(verified, a_segment(count, 600))) / count
        table.compare(
            f"verify an event, {count} in a segment", each, "alone", alone, unit="µs",
            also=each <= 15, most=1, target=", ≤ 15 µs",
        )  # fmt: skip
    return table


# How far news has to go


@dataclass
class Reached:
    banks: int
    peers: int
    rounds: int
    """Until the last one had it; a frame takes one."""
    half: int
    """Until half of them had it."""
    frames: Counter[str]
    """All that was sent, until nobody had anything more to say."""
    bytes: int

    @property
    def seconds(self) -> float:
        return self.rounds * ROUND_TRIP / 2


def acquainted(banks: int, most: int, rng: random.Random) -> list[list[int]]:
    """Who talks to whom: everybody to everybody, or each to about ``most`` by lot."""
    peers: list[set[int]] = [set() for _ in range(banks)]
    for number in range(banks):
        peers[number].add((number + 1) % banks)
        peers[(number + 1) % banks].add(number)
        others = range(banks) if banks - 1 <= most else rng.sample(range(banks), most // 2 - 1)
        for other in others:
            if other != number:
                peers[number].add(other)
                peers[other].add(number)
    return [sorted(each) for each in peers]


def reached(banks: int, *, most_peers: int = MOST_PEERS, fanout: int = 3, seed: int = 1) -> Reached:
    """One memory, from one bank to all, by the gossip that real banks run."""
    rng = random.Random(seed)
    peers = acquainted(banks, most_peers, rng)
    owner = Identity.of("owner")
    keys = [owner.key, *(number.to_bytes(32) for number in range(1, banks))]
    numbers = {key: number for number, key in enumerate(keys)}
    logs = [MemoryLogs() for _ in keys]
    nodes = [Node(logs[n], key, random.Random(rng.random()), fanout) for n, key in enumerate(keys)]
    for number, node in enumerate(nodes):
        for other in peers[number]:
            node.connected(keys[other], (CHANNEL,))
    log = Log(owner.key, "first", CHANNEL)
    first = logs[0].append(owner, log, json.dumps({"content": "x" * 1_000}).encode())

    names = {Segment: "whole", Announce: "by name", Want: "questions"}
    sizes: dict[type, int] = {}
    sent: Counter[str] = Counter()
    total = have = rounds = half = now = 0

    def carried(source: int, frames: Frames) -> Iterable[tuple[int, int, wire.Frame]]:
        nonlocal total
        for key, frame in frames:
            kind = type(frame)
            sizes.setdefault(kind, len(wire.encode(frame)))
            sent[names[kind]] += 1
            total += sizes[kind]
            yield source, numbers[key], frame

    on_the_way = list(carried(0, nodes[0].grown(log, first)))
    while on_the_way:
        now += 1
        next_round: list[tuple[int, int, wire.Frame]] = []
        for source, target, frame in on_the_way:
            next_round += carried(target, nodes[target].received(keys[source], frame))
        on_the_way = next_round
        if have < banks:
            have = sum(each.head(log) is not None for each in logs)
            rounds = now
            half = half or (now if 2 * have >= banks else 0)
    assert have == banks, f"{have} of {banks}"
    return Reached(banks, round(statistics.mean(map(len, peers))), rounds, half, sent, total)


def reach(most: int) -> tables.Table:
    table = tables.Table(
        name="bus_reach",
        title="How far a memory has to go to reach all banks",
        columns=("banks", "peers each", "rounds to half", "rounds to all", "seconds at 20 ms",
                 "frames per bank", "copies per bank", "KB per bank"),
        notes=["The gossip of real banks; the network between them is on paper: a frame takes "
               "half a round trip of 20 ms, and a bank talks to about "
               f"{MOST_PEERS} others at most. Frames: all that were sent until nobody had "
               "anything more to say; copies: how often the memory itself, of 1 KB, was sent."],
        machine=tables.machine(),
    )  # fmt: skip
    for banks in SIZES:
        if banks > most:
            break
        lives = [reached(banks, seed=seed) for seed in range(1, 4 if banks <= 1_000 else 2)]
        found = sorted(lives, key=lambda each: each.rounds)[len(lives) // 2]
        table.add(
            f"{banks:,}", found.peers, found.half, found.rounds, f"{found.seconds:.2f}",
            f"{sum(found.frames.values()) / banks:.1f}", f"{found.frames['whole'] / banks:.1f}",
            f"{found.bytes / banks / 1024:.1f}",
        )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=max(SIZES))
    most = parser.parse_args().most
    for table in (frames(), reach(most)):
        tables.show(table)
        tables.keep("bus_frames", table)


if __name__ == "__main__":
    main()
