"""Banks that exchange exports become equal, whatever the order, the repetitions and the clocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fault_tools import a_memory, imported, keep_count, scaled
from hypothesis import HealthCheck, seed, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from replicas import DAY, HOUR, PATHS, Clock, Place, Replicas, disagreements
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import Forbidden, InvalidInput, NotFound, Refused
from reasonbank.model import LinkType, Outcome, Scope, Trace, derived_id

NEW = [derived_id("memory", str(number)) for number in range(6)]
TRACES = [derived_id("trace", str(number)) for number in range(4)]
WORDS = ("Ports", "Locks", "Queues", "Caches")
SKEWS = (0, 0, 1, HOUR, -HOUR, 20 * HOUR, -12 * HOUR, 2 * DAY, -2 * DAY, 365 * DAY)
CHANGES = ("archive", "restore", "undo", "undo", "undo to", "forget")
PAUSES = (0, 1, 2, HOUR, DAY, 31 * DAY, 400 * DAY)

BANK = st.integers(0, 2)
MEMORY = st.integers(0, 7)  # Which of those that a bank has.
WHO = st.sampled_from(["ann", "bob"])
WORD = st.sampled_from(WORDS)
SESSION = st.sampled_from([None, "morning", "evening", "night"])
NAMED = st.sampled_from(["morning", "evening", "night"])
WHICH = st.integers(0, len(TRACES) - 1)
PLACE = st.sampled_from([0, 1, 2])
AWAY = st.sampled_from([0, 0, 0, 1, 2, 3])  # Mostly a memory is used where it was recorded.
TEAM = st.sampled_from([None, None, None, "blue", "red"])
TYPE = st.sampled_from(list(LinkType)[:2])


class ConvergenceMachine(RuleBasedStateMachine):
    """Three banks that do as they like and exchange files now and then."""

    place: Place | None = None

    @initialize(skews=st.tuples(*[st.sampled_from(SKEWS)] * 3))
    def open(self, skews: tuple[int, int, int]) -> None:
        self.replicas = Replicas(place=self.place)
        self.count = 0
        for place, word in enumerate(WORDS[: len(PATHS)]):
            scope = Scope.TEAM if place else Scope.PROJECT
            self.replicas.bank(0, place).record(a_memory(f"{word} first", scope=scope))
        self.replicas.send(0, 1)
        self.replicas.send(0, 2)
        self.replicas.wait(DAY)
        for clock, skew in zip(self.replicas.clocks, skews, strict=True):
            clock.skew = skew

    def pick(self, i: int, number: int, away: int = 0, **who: Any) -> tuple[Bank, str]:
        """One of the memories of a bank, seen from its workspace, or from another."""
        bank = self.replicas.banks[i]
        found = bank.store.ledger.read().db.all(
            "select workspace, id from memories order by lesson"
        )
        if not found:
            place = number % len(PATHS)
            bank = self.replicas.bank(i, place, **who)
            return bank, bank.record(a_memory(f"{WORDS[number % 4]} again {self.count}")).id
        workspace, id = found[number % len(found)]
        here = self.replicas.bank(i, away - 1, **who) if away else self.replicas.bank(i, **who)
        return (here if away else here.seen_by(workspace=workspace)), id

    def two(self, i: int, a: int, b: int) -> tuple[Bank, str, str]:
        bank, one = self.pick(i, a)
        return bank, one, self.pick(i, b)[1]

    def used(self, i: int, numbers: list[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.pick(i, number)[1] for number in numbers))

    def try_to(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What this bank refuses changes nothing, and is no part of the story."""
        try:
            return call(*arguments, **options)
        except (Forbidden, NotFound, Refused, InvalidInput):
            return None

    # Memories

    @rule(
        i=BANK, id=st.sampled_from(NEW), word=WORD, who=WHO, team=TEAM, shared=st.booleans(),
        parent=st.none() | MEMORY,
    )  # fmt: skip
    def record(
        self, i: int, id: str, word: str, who: str, team: str | None, shared: bool,
        parent: int | None,
    ) -> None:  # fmt: skip
        self.count += 1
        parents = () if parent is None else (self.pick(i, parent)[1],)
        memory = a_memory(
            f"{word} {self.count}", id=id, tags=(word,), outcome=list(Outcome)[self.count % 3],
            scope=Scope.TEAM if shared else Scope.PROJECT,
            parents=() if id in parents else parents,
        )  # fmt: skip
        place = NEW.index(id) % len(PATHS)
        self.try_to(self.replicas.bank(i, place, author=who, team=team).record, memory)

    @rule(i=BANK, place=PLACE, word=WORD, who=WHO)
    def import_plain_memories(self, i: int, place: int, word: str, who: str) -> None:
        line = a_memory(f"{word} plainly").to_json()
        del line["id"]
        bank = self.replicas.bank(i, place, author=who)
        imported(bank, json.dumps(line))

    @rule(i=BANK, place=PLACE, word=WORD, who=WHO, session=SESSION)
    def capture(self, i: int, place: int, word: str, who: str, session: str | None) -> None:
        answer = f"1. Look at {word}\n2. Wait until they answer\n\n```\nls {word}\n```"
        bank = self.replicas.bank(i, place, author=who)
        bank.capture(f"{word}: what to do?", answer, session=session)

    @rule(i=BANK, n=MEMORY, word=WORD, away=AWAY)
    def update(self, i: int, n: int, word: str, away: int) -> None:
        bank, id = self.pick(i, n, away)
        self.count += 1
        title = f"{word} anew {self.count}"
        self.try_to(bank.update, id, title=title, tags=(word, "new"))

    @rule(i=BANK, n=MEMORY, verb=st.sampled_from(CHANGES))
    def change(self, i: int, n: int, verb: str) -> None:
        bank, id = self.pick(i, n)
        options = {"to": 1} if verb == "undo to" else {}
        self.try_to(getattr(bank, verb.split(maxsplit=1)[0]), id, **options)

    @rule(i=BANK, a=MEMORY, b=MEMORY, type=TYPE, strength=st.sampled_from([0.25, 0.75]))
    def link(self, i: int, a: int, b: int, type: LinkType, strength: float) -> None:
        bank, one, two = self.two(i, a, b)
        self.try_to(bank.link, one, two, type=type, strength=strength)

    @rule(i=BANK, a=MEMORY, b=MEMORY, type=TYPE)
    def unlink(self, i: int, a: int, b: int, type: LinkType) -> None:
        bank, one, two = self.two(i, a, b)
        self.try_to(bank.unlink, one, two, type=type)

    # Evidence

    @rule(i=BANK, n=MEMORY, away=AWAY, who=WHO, session=SESSION, good=st.booleans())
    def feedback(
        self, i: int, n: int, away: int, who: str, session: str | None, good: bool
    ) -> None:
        bank, id = self.pick(i, n, away, author=who)
        self.try_to(bank.feedback, id, helpful=good, session=session, comment=f"by {who}")

    @rule(i=BANK, n=MEMORY, away=AWAY, who=WHO, session=SESSION, good=st.booleans())
    def outcome(self, i: int, n: int, away: int, who: str, session: str | None, good: bool) -> None:
        bank, id = self.pick(i, n, away, author=who)
        self.try_to(bank.outcome, id, succeeded=good, session=session)

    @rule(i=BANK, n=MEMORY, away=AWAY, session=SESSION, good=st.booleans())
    def stability(self, i: int, n: int, away: int, session: str | None, good: bool) -> None:
        bank, id = self.pick(i, n, away)
        self.try_to(bank.stability, id, kept=good, session=session)

    @rule(i=BANK, place=PLACE, word=WORD, session=SESSION, limit=st.integers(1, 4))
    def search(self, i: int, place: int, word: str, session: str | None, limit: int) -> None:
        self.replicas.bank(i, place).search(f"{word} now", session=session, limit=limit)

    @rule(i=BANK, place=PLACE, word=WORD, session=SESSION)
    def inject(self, i: int, place: int, word: str, session: str | None) -> None:
        self.replicas.bank(i, place).inject(f"{word} now", session=session)

    @rule(i=BANK, place=PLACE, session=NAMED, good=st.booleans(), who=WHO)
    def credit(self, i: int, place: int, session: str, good: bool, who: str) -> None:
        self.replicas.bank(i, place, author=who).credit(session, succeeded=good)

    # Traces

    @rule(
        i=BANK, which=WHICH, used=st.lists(MEMORY, max_size=2),
        outcome=st.sampled_from([None, Outcome.SUCCESS]),
    )  # fmt: skip
    def store_trace(self, i: int, which: int, used: list[int], outcome: Outcome | None) -> None:
        self.count += 1
        given = self.used(i, used)
        task = f"Task {self.count}"
        trace = Trace(task=task, id=TRACES[which], memories_used=given, outcome=outcome)
        self.try_to(self.replicas.bank(i, which % len(PATHS)).store_trace, trace)

    @rule(
        i=BANK, which=WHICH, word=WORD, used=st.lists(MEMORY, max_size=2),
        outcome=st.sampled_from(["success", "failure"]),
    )  # fmt: skip
    def learn(self, i: int, which: int, word: str, used: list[int], outcome: str) -> None:
        bank = self.replicas.bank(i, which % len(PATHS))
        trace = Trace(task=f"{word} task", id=TRACES[which], memories_used=self.used(i, used))
        given = self.try_to(bank.distil_prepare, trace)
        if given is not None:
            lesson = {"title": f"{word} learned", "description": "When it is slow",
                      "content": f"Look at the {word}.", "tags": ["learned"],
                      "first_step": 1, "last_step": 1, "outcome": "success"}  # fmt: skip
            answer = {"memories": [lesson], "outcome": outcome}
            self.try_to(bank.distil_submit, given.ticket, answer)

    @rule(i=BANK, place=PLACE, days=st.sampled_from([0, 1, 30]))
    def purge_traces(self, i: int, place: int, days: int) -> None:
        self.replicas.bank(i, place).purge_traces(older_than_days=days)

    # Many at once

    @rule(i=BANK, place=PLACE)
    def maintain(self, i: int, place: int) -> None:
        self.replicas.bank(i, place).maintain()

    @rule(i=BANK, place=PLACE, verb=st.sampled_from(["consolidate", "promote", "undo"]))
    def batch(self, i: int, place: int, verb: str) -> None:
        bank = self.replicas.bank(i, place)
        if verb == "consolidate":
            self.try_to(bank.consolidate, force=True)
        elif verb == "promote":
            self.try_to(bank.promote)
        elif done := bank.batches():
            self.try_to(bank.undo_batch, done[0].batch)

    # Workspaces

    @rule(
        i=BANK, place=PLACE,
        verb=st.sampled_from(["name", "name", "move", "move", "merge", "join", "delete"]),
        name=st.sampled_from(["one", "two"]), to=st.sampled_from([*PATHS, "/moved"]),
    )  # fmt: skip
    def workspace(self, i: int, place: int, verb: str, name: str, to: str) -> None:
        bank = self.replicas.bank(i, place)
        id = bank.view.workspace
        match verb:
            case "name":
                self.try_to(bank.name_workspace, id, name)
            case "move":
                self.try_to(bank.move_workspace, id, to)
            case "merge":
                self.try_to(bank.merge_workspace, id, to)
            case "join":
                self.try_to(bank.join_workspace, team=name)
            case "delete":
                self.try_to(bank.delete_workspace, id, confirm=True)

    # Between banks

    @rule(pause=st.sampled_from(PAUSES))
    def wait(self, pause: int) -> None:
        self.replicas.wait(pause)

    @rule(i=BANK, to=BANK)
    def send(self, i: int, to: int) -> None:
        self.replicas.send(i, to)

    @rule(i=BANK, to=BANK, place=PLACE)
    def send_one_workspace(self, i: int, to: int, place: int) -> None:
        self.replicas.send(i, to, only=place)

    def teardown(self) -> None:
        if hasattr(self, "replicas"):
            try:
                assert disagreements(self.replicas) == {}
            finally:
                self.replicas.close()


@pytest.mark.slow
@requirement("MEM-10")
def test_banks_that_exchange_exports_become_equal() -> None:
    """In a soak with 2,000 runs of 100 steps."""
    runs = scaled("REASONBANK_TEST_CONVERGENCE_RUNS", 100)
    steps = scaled("REASONBANK_TEST_CONVERGENCE_STEPS", 40)
    machine: Any = ConvergenceMachine
    if chosen := scaled("REASONBANK_TEST_SEED", 0):
        machine = seed(chosen)(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    keep_count("convergence", {"runs": runs, "steps in each": steps, "seed": chosen or "any"})


@pytest.mark.slow
@requirement("MEM-10")
def test_a_bank_on_a_server_that_exchanges_exports_becomes_equal_too(
    new_postgres: Callable[[], str],
) -> None:
    from reasonbank.ledger.postgres import PostgresLedger

    ledgers: list[Any] = []

    def new(clock: Clock) -> Any:
        ledgers.append(PostgresLedger(new_postgres(), clock=clock))
        return ledgers[-1]

    class OnAServer(ConvergenceMachine):
        place = staticmethod(new)

        def teardown(self) -> None:
            super().teardown()
            while ledgers:
                ledgers.pop().close()

    machine: Any = OnAServer
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled("REASONBANK_TEST_CONVERGENCE_SERVER_RUNS", 5),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
