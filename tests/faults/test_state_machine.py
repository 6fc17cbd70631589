"""A bank against a dictionary: whatever is done in whatever order, both agree."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fault_tools import (
    MEMORY,
    a_memory,
    differences,
    exported,
    imported,
    open_bank,
    projections,
    scaled,
)
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.requirement import requirement

from reasonbank.errors import Forgotten, InvalidInput, Refused
from reasonbank.model import EvidenceKind, LinkType, State

# Texts that a bank may hold, among them those that trip up careless programs.
WORDS = st.sampled_from(
    ["plain", 'quo"ted', "50% off", "O'Brien", "日本語", "a\nb", "🦓", "<memory>", "null", "-", "*"]
)
SESSIONS = st.sampled_from([None, "morning", "evening"])


@dataclass(frozen=True)
class Version:
    title: str
    content: str
    tags: tuple[str, ...]
    state: State


@dataclass
class Known:
    """What the dictionary knows of one memory."""

    past: list[Version]
    steps: list[Version]
    said: dict[Any, bool] = field(default_factory=dict)
    links: set[tuple[str, str]] = field(default_factory=set)

    @property
    def now(self) -> Version:
        return self.steps[-1]

    def change(self, version: Version) -> None:
        if version != self.now:
            self.steps.append(version)
            self.past.append(version)


class BankMachine(RuleBasedStateMachine):
    """``new_place`` gives the URL of an empty bank; without it, one in a file is made."""

    ids = Bundle("ids")
    new_place: ClassVar[Callable[[], str] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.path: Path | str = Path(self.folder.name) / "bank.db"
        if self.new_place is not None:
            self.path = self.new_place()
        self.known: dict[str, Known] = {}
        self.gone: set[str] = set()
        self.count = 0

    @initialize()
    def open(self) -> None:
        self.bank = open_bank(self.path)

    def teardown(self) -> None:
        if hasattr(self, "bank"):
            self.bank.close()
        self.folder.cleanup()

    @rule(target=ids, word=WORDS, tags=st.lists(WORDS, max_size=3, unique=True))
    def record(self, word: str, tags: list[str]) -> str:
        self.count += 1
        title = f"{word} number{self.count}x"
        memory = self.bank.record(a_memory(title, content=word, tags=tuple(tags)))
        first = Version(title, word, tuple(tags), State.ACTIVE)
        self.known[memory.id] = Known([first], [first])
        return memory.id

    @rule(id=ids, word=WORDS)
    def record_again_is_refused(self, id: str, word: str) -> None:
        with pytest.raises(Refused):
            self.bank.record(a_memory(word, id=id))

    @rule(id=ids, word=WORDS)
    def update_content(self, id: str, word: str) -> None:
        now = self.known[id].now
        self.bank.update(id, content=word)
        self.known[id].change(Version(now.title, word, now.tags, now.state))

    @rule(id=ids, tags=st.lists(WORDS, max_size=2, unique=True))
    def update_title_and_tags(self, id: str, tags: list[str]) -> None:
        self.count += 1
        now = self.known[id].now
        title = f"again number{self.count}x"
        self.bank.update(id, title=title, tags=tags)
        self.known[id].change(Version(title, now.content, tuple(tags), now.state))

    @rule(id=ids)
    def archive(self, id: str) -> None:
        now = self.known[id].now
        self.bank.archive(id)
        self.known[id].change(Version(now.title, now.content, now.tags, State.ARCHIVED))

    @rule(id=ids)
    def restore(self, id: str) -> None:
        now = self.known[id].now
        self.bank.restore(id)
        self.known[id].change(Version(now.title, now.content, now.tags, State.ACTIVE))

    @rule(id=ids)
    def undo(self, id: str) -> None:
        known = self.known[id]
        if len(known.steps) == 1:
            with pytest.raises(Refused):
                self.bank.undo(id)
            return
        self.bank.undo(id)
        known.steps.pop()
        known.past.append(known.now)

    @rule(id=ids, to=st.integers(0, 6))
    def undo_to(self, id: str, to: int) -> None:
        known = self.known[id]
        if not 1 <= to <= len(known.past):
            with pytest.raises(InvalidInput):
                self.bank.undo(id, to=to)
            return
        self.bank.undo(id, to=to)
        known.steps.append(known.past[to - 1])
        known.past.append(known.now)

    @rule(id=consumes(ids))
    def forget(self, id: str) -> None:
        self.bank.forget(id)
        del self.known[id]
        self.gone.add(id)
        for other in self.known.values():
            other.links = {link for link in other.links if id not in link}

    @rule(id=ids, helpful=st.booleans(), session=SESSIONS)
    def feedback(self, id: str, helpful: bool, session: str | None) -> None:
        self.bank.feedback(id, helpful=helpful, session=session)
        self.say(id, EvidenceKind.EXPLICIT, helpful, session)

    @rule(id=ids, succeeded=st.booleans(), session=SESSIONS)
    def outcome(self, id: str, succeeded: bool, session: str | None) -> None:
        self.bank.outcome(id, succeeded=succeeded, session=session)
        self.say(id, EvidenceKind.OUTCOME, succeeded, session)

    def say(self, id: str, kind: EvidenceKind, positive: bool, session: str | None) -> None:
        said = self.known[id].said
        said[kind, session or len(said)] = positive

    @rule(one=ids, two=ids, type=st.sampled_from(LinkType))
    def link(self, one: str, two: str, type: LinkType) -> None:
        if one == two:
            with pytest.raises(InvalidInput):
                self.bank.link(one, two, type=type)
            return
        self.bank.link(one, two, type=type, strength=0.5)
        for end in (one, two):
            self.known[end].links.add((one, two))

    @rule(id=ids)
    def search_finds_active_memories_by_their_title(self, id: str) -> None:
        known = self.known[id]
        found = {
            hit.memory.id
            for hit in self.bank.search(known.now.title, limit=100, min_confidence=0.0)
        }
        assert (id in found) == (known.now.state is State.ACTIVE)
        assert found <= {i for i, k in self.known.items() if k.now.state is State.ACTIVE}

    @rule()
    def reopen(self) -> None:
        self.bank.close()
        self.bank = open_bank(self.path)

    @rule()
    def rebuild(self) -> None:
        self.bank.store.flush()
        before = projections(self.bank)
        self.bank.rebuild()
        assert differences(before, projections(self.bank)) == {}

    @rule()
    def export_and_import_into_a_fresh_bank(self) -> None:
        text = exported(self.bank)
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            with open_bank(Path(folder) / "bank.db") as fresh:
                imported(fresh, text)
                if self.new_place is None:
                    assert differences(projections(self.bank), projections(fresh)) == {}
                for id in self.known:
                    assert fresh.get(id) == self.bank.get(id)
            imported(self.bank, text)

    @rule()
    def maintain(self) -> None:
        self.bank.maintain()
        for id, known in self.known.items():
            memory = self.bank.get(id)
            if memory.state is not known.now.state:  # Pruned: nobody believes it any more.
                assert memory.confidence < 0.3
                now = known.now
                known.change(Version(now.title, now.content, now.tags, State.ARCHIVED))

    @invariant()
    def both_agree(self) -> None:
        for id, known in self.known.items():
            memory = self.bank.get(id)
            now = Version(memory.title, memory.content, memory.tags, memory.state)
            assert now == known.now
            assert memory.revision == len(known.past)
            history = self.bank.history(id)
            assert [r.number for r in history] == list(range(1, len(known.past) + 1))
            assert [
                Version(r.memory.title, r.memory.content, r.memory.tags, r.memory.state)
                for r in history
            ] == known.past
            said = [e.positive for e in self.bank.evidence(id) if e.kind is not EvidenceKind.USAGE]
            assert sorted(said) == sorted(known.said.values())
            assert {(ln.source, ln.target) for ln in self.bank.links(id)} == known.links
        for id in self.gone:
            with pytest.raises(Forgotten):
                self.bank.get(id)


def examined(machine: type[BankMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
@requirement("MEM-6")
def test_a_bank_and_a_dictionary_agree() -> None:
    examined(BankMachine, 40)


@pytest.mark.slow
@requirement("MEM-6", "MEM-10")
def test_a_bank_on_a_server_and_a_dictionary_agree(new_postgres: Callable[[], str]) -> None:
    """What it exports goes into a bank in a file, which says the same of everything."""

    class ServerMachine(BankMachine):
        new_place = staticmethod(new_postgres)

    examined(ServerMachine, scaled("REASONBANK_TEST_SERVER_EXAMPLES", 8))
