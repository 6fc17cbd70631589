"""Nothing crosses between workspaces, and nothing foreign changes, through whichever way in."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from canaries import (
    HASHED,
    ID,
    WORD,
    Canaries,
    Looking,
    Place,
    Rows,
    Told,
    leaks,
    meddling,
    misplaced,
)
from canary_arguments import Maker
from canary_doors import (
    HTTP,
    QUIET,
    SHARING,
    Caller,
    CommandLine,
    Door,
    Library,
    MCPOverHTTP,
    StandardStreams,
    everything,
)
from tests.faults.fault_tools import DAY, MEMORY, keep_count, scaled
from tests.requirement import requirement
from tests.surfaces.http_server import serving

from reasonbank.bank import Bank
from reasonbank.ledger.port import Filter
from reasonbank.model import Scope
from reasonbank.search.answer import recall
from reasonbank.search.gather import Question

OWNER = Caller()
DOORS = {"http": 0.44, "library": 0.22, "mcp": 0.15, "stdio": 0.09, "cli": 0.10}
NO_ROWS: Rows = {"memories": {}, "traces": {}, "jobs": {}}
RATINGS = {"feedback", "outcome", "stability", "memory_feedback", "memory_outcome"}
TICKET = re.compile(rf"{ID.pattern}\.agent-[0-9a-f]+")


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="reasonbank-", dir=MEMORY)
    yield Path(folder)
    shutil.rmtree(folder)


class Round:
    """One bank, all ways in, and a watch over every step."""

    def __init__(
        self, folder: Path, seed: int, stack: ExitStack, url: str = "", *, each: int = 3
    ) -> None:
        self.rng = random.Random(seed)
        self.canaries = Canaries(folder, random.Random(seed), url)
        self.canaries.settle(each)
        self.looking = Looking(self.canaries.url)
        stack.callback(self.looking.close)
        server = stack.enter_context(serving(folder, REASONBANK_URL=self.canaries.url, **QUIET))
        self.looking.new_events()  # A server makes a token for its owner when it starts.
        self.library = Library(self.canaries, self.rng, HASHED)
        # What is newer weighs more: only at one moment are two answers equal to the last bit.
        noon = self.library.bank.store.clock() + DAY
        self.judge = stack.enter_context(
            Bank.open(self.canaries.url, settings=HASHED, clock=lambda: noon)
        )
        self.doors: dict[str, Door] = {
            "library": self.library,
            "cli": CommandLine(self.canaries, self.rng, every=31),
            "stdio": StandardStreams(self.canaries, self.rng),
            "http": HTTP(self.canaries, self.rng, server.address),
            "mcp": MCPOverHTTP(self.canaries, self.rng, server.address),
        }
        for door in self.doors.values():
            stack.callback(door.close)
        self.maker = Maker(self.canaries, self.rng, self.looking.rows)
        self.called: dict[str, set[str]] = {name: set() for name in self.doors}
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def caller(self, door: str) -> Caller:
        if door not in ("http", "mcp"):
            return OWNER
        side, bound = self.rng.choice(("read", "write", "admin", "admin")), self.rng.random() < 0.6
        if side == "admin" and not bound:
            return Caller(side=side)
        return Caller(side=side, bound=bound, may_share=frozenset({Scope.PROJECT}))

    def step(self) -> None:
        name = self.rng.choices([*DOORS], [*DOORS.values()])[0]
        door, place = self.doors[name], self.rng.choice(self.canaries.places)
        verb, caller = door.next(), self.caller(name)
        self.maker.begin(place, permitted=caller.local or caller.whole)
        given = door.ask(self.maker, verb)
        before = self.looking.rows()
        trust = self._trust(verb, given, place)
        answer = door.call(caller, place, verb, given)
        after, events = self.looking.rows(), self.looking.new_events()
        shared = Scope.TEAM if self._may_share(caller, place) else Scope.PROJECT
        told = Told(
            place=door.seen_from(caller, place, verb, given),
            who=f"{name} {caller.name}", verb=verb, done=answer.done,
            sent=answer.sent, answer=answer.text,
            sees_all=(caller.local or caller.whole) and everything(verb, given),
            sees_evidence=caller.whole and verb == "evidence",
            # The log of a promotion names the memories that agree; nobody can take that out of it.
            sees_kin=caller.whole or verb == "export",
            changes_all=caller.whole or (caller.local and everything(verb, given)),
            may_share=caller.may_share | {shared},
        )  # fmt: skip
        if told.done and verb in SHARING:
            self._widen(before, after)
        wrong = [*leaks(self.canaries, after, told), *meddling(told, before, after, events),
                 *misplaced(self.canaries, after)]  # fmt: skip
        if trust != self._trust(verb, given, place):
            wrong.append("others trust it differently now")
        self.wrong += [f"{told}\n    {each}" for each in wrong]
        self.called[name].add(verb)
        self.counts["done" if told.done else "refused"] += 1
        self._learn(place, answer.text)

    def _may_share(self, caller: Caller, place: Place) -> bool:
        return caller.bound and caller.side == "write" and place.project == 0

    def _trust(self, verb: str, given: dict[str, Any], rater: Place) -> list[Any]:
        """What a memory's own project, and a third one, think of it that somebody rates."""
        id = given.get("id", given.get("memory_id"))
        row = self.looking.rows()["memories"].get(id) if verb in RATINGS else None
        owner = self.canaries.at(row[0]) if row else None
        if row is None or owner is None or owner is rater:
            return []
        thirds = [
            p for p in self.canaries.places if p is not rater and p.same(owner, Scope(row[1]))
        ]
        asked = Question(text=" ".join(WORD.findall(row[4])[:2]), limit=20, filter=Filter(),
                         min_confidence=0.0)  # fmt: skip
        self.judge.embed_new()  # After a rebuild, what others embed would move scores meanwhile.
        found = []
        for place in (owner, *thirds[:2]):
            bank = self.judge.within(place.path)
            hits = [(hit.memory.id, hit.score, hit.expected) for hit in recall(bank.context, asked)]
            found.append((bank.get(str(id)).confidence, hits))
        return found

    def _widen(self, before: Any, after: Any) -> None:
        """What was promoted may be seen by more."""
        for id, row in after["memories"].items():
            if id not in before["memories"] and (owner := self.canaries.at(row[0])):
                for word in WORD.findall(row[4]):
                    self.canaries.words[word] = (owner, Scope(row[1]))

    def _learn(self, place: Place, answer: str) -> None:
        """What the next steps can be about; workspaces that went are furnished anew."""
        self.canaries.tickets[place.id] += TICKET.findall(answer)
        stored = self.looking.rows()["workspaces"]
        for each in self.canaries.places:
            if each.id not in stored:
                old = each.id
                self.canaries.furnish(each)
                self.canaries.sessions.setdefault(each.id, [self.canaries.word(each)])
                self.counts["deleted"] += each.id == old
                self.looking.new_events()
            else:
                _, path, name, *_ = stored[each.id]
                each.path, each.name = path, name or each.name
                Path(path).mkdir(exist_ok=True)
                for word in WORD.findall(f"{path} {name}"):
                    self.canaries.words[word] = (each, Scope.PROJECT)


@pytest.mark.slow
@requirement("WSP-2")
@requirement("SEC-6")
def test_nothing_crosses_between_workspaces_and_nothing_foreign_changes(
    memory_disk: Path,
) -> None:
    """In a soak 10,000 steps."""
    steps = scaled("REASONBANK_TEST_CANARIES", 1000)
    seed = scaled("REASONBANK_TEST_SEED", 1)
    with ExitStack() as stack:
        round = Round(memory_disk, seed, stack)
        for _ in range(steps):
            round.step()
        assert round.wrong == [], "\n".join(round.wrong)
        missing = {name: set(door.verbs) - round.called[name] for name, door in round.doors.items()}
        assert not any(missing.values()), missing
        assert round.counts["done"] > steps / 3
        verbs = {f"verbs through {name}": len(found) for name, found in round.called.items()}
    keep_count("canaries", {"seed": seed, "steps": steps} | verbs | dict(round.counts))


@pytest.mark.slow
@requirement("WSP-2")
@requirement("SEC-6")
def test_nothing_crosses_in_postgresql_either(memory_disk: Path, postgres_url: str) -> None:
    """In fewer steps and workspaces: the ways in are the same, what is behind them is not."""
    steps = scaled("REASONBANK_TEST_CANARIES_POSTGRES", 120)
    with ExitStack() as stack:
        seed = scaled("REASONBANK_TEST_SEED", 2)
        round = Round(memory_disk, seed, stack, postgres_url, each=2)
        for _ in range(steps):
            round.step()
        assert round.wrong == [], "\n".join(round.wrong)
        assert all(round.called.values())
        assert round.counts["done"] > steps / 3


def test_every_verb_of_every_way_in_can_be_called(memory_disk: Path) -> None:
    """A new one is part of the proof at once, or says here what it lacks."""
    canaries = Canaries(memory_disk, random.Random(1))
    place = Place(0, 0, 0, str(memory_disk / "place"))
    canaries.places.append(place)
    canaries.furnish(place)
    canaries.sessions[place.id] = [canaries.word(place)]
    canaries.spare_tokens.append("token")
    looking = Looking(canaries.url)
    maker = Maker(canaries, canaries.rng, looking.rows)
    nowhere = "http://127.0.0.1:9"
    for door in (
        Library(canaries, canaries.rng, HASHED),
        CommandLine(canaries, canaries.rng, every=31),
        HTTP(canaries, canaries.rng, nowhere),
        MCPOverHTTP(canaries, canaries.rng, nowhere),
    ):
        for verb in door.verbs:
            maker.begin(place, permitted=True)
            door.ask(maker, verb)
        door.close()
    looking.close()


def test_the_watch_sees_a_word_that_crosses_and_a_row_that_changes(memory_disk: Path) -> None:
    canaries = Canaries(memory_disk, random.Random(1))
    ours, mate, stranger = (Place(org, 0, project, "", id=f"{org}{project}")
                            for org, project in ((0, 0), (0, 1), (1, 0)))  # fmt: skip
    canaries.places += [ours, mate, stranger]
    words = {scope: canaries.word(ours, scope) for scope in Scope}

    def seen(place: Place, scope: Scope, **known: Any) -> bool:
        told = Told(place=place, who="", verb="", sent="", answer=f'["{words[scope]}"]', done=True,
                    **known)  # fmt: skip
        return not [*leaks(canaries, NO_ROWS, told)]

    assert all(seen(ours, scope) for scope in Scope)
    assert [seen(mate, scope) for scope in Scope] == [False, True, True]
    assert not any(seen(stranger, scope) for scope in Scope)
    assert seen(stranger, Scope.PROJECT, sees_all=True)
    changed = {"jobs": {"a": (ours.id, "waiting")}}, {"jobs": {"a": (ours.id, "done")}}
    for place, wrong in ((ours, 0), (mate, 2)):
        told = Told(place=place, who="", verb="", sent="", answer="", done=True)
        nothing = {"memories": {}}
        before, after = (nothing | each for each in changed)
        assert len([*meddling(told, before, after, [])]) == wrong
