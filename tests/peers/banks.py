"""Banks that talk to each other without a network, and one that lies."""

from __future__ import annotations

import json
import os
import random
from collections import deque
from itertools import pairwise

from reasonbank import Bank, Settings
from reasonbank.ledger.events import EventType
from reasonbank.model import Memory, Outcome, Principal, Scope, new_id
from reasonbank.peers import membership, merge
from reasonbank.peers.gossip import Node
from reasonbank.peers.identity import Identity
from reasonbank.peers.logs import LedgerLogs
from reasonbank.peers.wire import Entry, Log, Segment
from reasonbank.settings import Embed

TEAM = "team:local/default"
SETTINGS = Settings(embed=Embed(model="hashed"), author="ann")


def a_lesson(title="Use uv", content="Run uv pip compile first.", **more):
    fields = {"outcome": Outcome.SUCCESS, "scope": Scope.TEAM, "description": "when locking"}
    return Memory(title=title, content=content, **fields | more)


class Member:
    def __init__(self, folder, name, url=None, principal=Principal.PERSON):
        self.name = name
        self.url = url or f"sqlite:///{folder / name}.db"
        self.project = folder / f"{name}-project"
        self.project.mkdir(exist_ok=True)
        self.principal = principal
        self.open()

    def open(self):
        self.bank = Bank.open(
            self.url, workspace=self.project, settings=SETTINGS, principal=self.principal
        )
        self.identity = Identity.of(self.bank.store.ledger.seal)
        self.key = self.identity.key
        self.logs = LedgerLogs(self.bank.context, self.identity)
        self.node = Node(self.logs, self.key, random.Random(self.name))

    def close(self):
        self.bank.close(embed=False)

    @property
    def db(self):
        return self.bank.store.ledger.read().db

    def knows(self, id):
        return self.bank.get(id)

    def titles(self):
        return {memory.title for memory in self.bank.memories(limit=1000)}


class Network:
    """Whoever is connected hears at once what the others say."""

    def __init__(self, *members, channels=(TEAM,)):
        self.members = {member.key: member for member in members}
        self.channels = channels
        self.lines = set()

    def join(self, *members):
        """Each with the next."""
        for one, other in pairwise(members):
            self.members |= {one.key: one, other.key: other}
            self.lines |= {(one.key, other.key), (other.key, one.key)}
            frames = [
                (one, one.node.connected(other.key, self.channels)),
                (other, other.node.connected(one.key, self.channels)),
            ]
            for each, told in frames:
                self.pump(each, told)
        self.tell(*members)

    def tell(self, *members):
        """All that they have to say, until nobody has anything to add."""
        for member in members or self.members.values():
            for grown in member.logs.publish(self.channels):
                self.pump(member, member.node.grown(*grown))

    def settle(self):
        """As time would."""
        for _ in range(6):
            for member in list(self.members.values()):
                for each in self.lines_of(member):
                    self.pump(member, member.node.connected(each, self.channels))

    def lines_of(self, member):
        return [to for key, to in self.lines if key == member.key]

    def pump(self, member, frames):
        waiting = deque((member.key, to, frame) for to, frame in frames)
        while waiting:
            source, to, frame = waiting.popleft()
            if (source, to) in self.lines:
                answers = self.members[to].node.received(source, frame)
                waiting.extend((to, each, answer) for each, answer in answers)


class Liar:
    """A bank that signs whatever it likes."""

    def __init__(self, name="liar", channel=TEAM):
        self.identity = Identity.of(name)
        self.key = self.identity.key
        self.log = Log(self.key, "epoch", channel)
        self.links = [merge.ZERO]

    def says(self, *told, log=None, first=None, prev=None):
        """``told``: (type, subject, payload, changes of the entry)."""
        log = log or self.log
        seq = len(self.links) - 1 if first is None else first
        prev = self.links[seq] if prev is None else prev
        entries = []
        for type, subject, payload, changes in told:
            data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            salt = os.urandom(merge.SALT)
            fields = {
                "id": new_id(), "workspace": "w", "counter": 10 + seq, "at": 1_700_000_000_000_000,
                "author": "ann", "principal": "person", "surface": "cli",
            } | changes  # fmt: skip
            entry = Entry(
                seq=seq, prev=prev, digest=merge.digest_of(salt, data), type=str(type),
                subject=subject, salt=salt, payload=data, **fields,
            )  # fmt: skip
            prev = merge.link_of(log, entry)
            if first is None:
                self.links.append(prev)
            entries.append(entry)
            seq += 1
        return Segment(log, entries, merge.signed(self.identity, prev))

    def lesson(self, id=None, lesson=None, payload=None, **changes):
        id = id or new_id()
        told = {"title": "A gift", "description": "when", "content": "Take it.", "outcome":
                "success", "scope": "team", "source": "explicit"} | (lesson or {})  # fmt: skip
        whole = {"lesson": told, "initial": 0.99, "stage": 0} | (payload or {})
        return id, (EventType.RECORDED, id, whole, changes)

    def place(self, team="default", org="local"):
        payload = {"path": "/etc", "team": team, "org": org}
        return (EventType.JOINED, "w", payload, {})


def befriend(one, other, channels=(TEAM,)):
    """As `peer invite` and `peer join` would."""
    invited = membership.invite(one.bank.context, address="127.0.0.1:1", channels=channels)
    pasted = membership.read(invited.invitation)
    membership.admit(one.bank.context, other.key, other.name, pasted.token)
    membership.joined(other.bank.context, pasted, one.name)
