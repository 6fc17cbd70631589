"""What every ``Ledger`` must do, as tests. A backend's test file is a subclass:

    class TestMemoryLedger(LedgerContract):
        @pytest.fixture
        def new_ledger(self):
            return MemoryLedger

        def stored(self, ledger):
            return ledger.db.dump().encode()

Each call of ``new_ledger`` gives an empty one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from reasonbank.ledger.events import Event, EventType, evidence_key
from reasonbank.ledger.port import Filter, Ledger, Token, UnansweredQuestion, Wanted, Writing
from reasonbank.ledger.vectors import PackedVector
from reasonbank.model import (
    JSON,
    EvidenceKind,
    Job,
    LinkType,
    Outcome,
    Scope,
    State,
    Told,
    View,
    new_id,
)
from reasonbank.testing.builders import a_memory, a_trace, a_warning
from reasonbank.testing.ledger_story import (
    ABROAD,
    BESIDE,
    DAY,
    ELSEWHERE,
    HERE,
    NOWHERE,
    Story,
    a_life,
    everything,
    found,
    num_of,
    told,
)
from reasonbank.testing.queue_contract import QueueContract
from reasonbank.testing.vector_contract import VectorContract
from reasonbank.trust.belief import WHOLE, masses

NewLedger = Callable[[], Ledger]


def _take(events: Sequence[Event], txn: Writing) -> int:
    return txn.take(events)


class LedgerContract(QueueContract, VectorContract):
    """Subclass this and give ``new_ledger`` and ``stored``."""

    @pytest.fixture
    def new_ledger(self) -> NewLedger:
        raise NotImplementedError("a contract needs a ledger to test")

    def stored(self, ledger: Ledger) -> bytes:
        """All that the store holds, as it lies there."""
        raise NotImplementedError("a contract must be able to look at what is stored")

    @pytest.fixture
    def opened(self, new_ledger: NewLedger) -> Iterator[NewLedger]:
        ledgers: list[Ledger] = []

        def opening() -> Ledger:
            ledgers.append(new_ledger())
            return ledgers[-1]

        yield opening
        for ledger in ledgers:
            ledger.close()

    @pytest.fixture
    def ledger(self, opened: NewLedger) -> Ledger:
        return opened()

    # The log and its projection

    @pytest.mark.parametrize("seed", range(6))
    def test_events_in_any_order_give_the_same_tables(self, opened: NewLedger, seed: int) -> None:
        story, _ = a_life()
        here, there = opened(), opened()
        assert here.write(lambda txn: txn.take(story.told)) == len(story.told)
        rng = random.Random(seed)  # nosec B311  # the same order each time
        events = rng.sample(story.told, len(story.told))
        while events:
            part = [events.pop() for _ in range(min(len(events), rng.randint(1, 4)))]
            there.write(lambda txn, part=part: txn.take(part))  # type: ignore[misc]
        assert [name for name, value in everything(here).items()
                if value != everything(there)[name]] == []  # fmt: skip

    def test_events_that_are_here_already_are_not_taken_again(self, ledger: Ledger) -> None:
        story, _ = a_life()
        taken = [event for event in story.told if event.type is not EventType.FORGOTTEN]
        ledger.write(lambda txn: txn.take(taken))
        before = everything(ledger)
        assert ledger.write(lambda txn: txn.take(taken)) == 0
        assert everything(ledger) == before

    def test_a_rebuild_gives_the_same_rows_under_the_same_numbers(self, ledger: Ledger) -> None:
        story, memories = a_life()
        ledger.write(lambda txn: txn.take(story.told))
        nums = [num_of(ledger, memory) for memory in memories[:3]]
        before = everything(ledger)
        ledger.write(lambda txn: txn.rebuild())
        assert everything(ledger) == before
        assert [num_of(ledger, memory) for memory in memories[:3]] == nums

    def test_a_memory_stands_as_it_was_changed_last(self, ledger: Ledger) -> None:
        story, memory = Story(), a_memory(tags=("old",))
        told(ledger, story.joined(), story.recorded(memory))
        told(
            ledger,
            story(EventType.REVISED, memory.id, {"changes": {"title": "New", "tags": ["new"]}}),
        )
        row = ledger.read().row(HERE, memory.id)
        assert row is not None
        stands = row.memory()
        assert (stands.title, stands.tags, stands.revision) == ("New", ("new",), 2)
        for tag, count in (("old", 0), ("new", 1)):
            assert len(ledger.read().listed(HERE, Filter(tags=(tag,)), 5)) == count
        changes = {event.type for event in ledger.read().changes_of(HERE, memory.id)}
        assert changes == {EventType.RECORDED, EventType.REVISED}

    def test_what_is_taken_back_counts_for_nothing_until_that_is_taken_back(
        self, ledger: Ledger
    ) -> None:
        story, memory, other = Story(), a_memory(), a_memory()
        before = [story.joined(), story.recorded(memory), story.recorded(other)]
        changed = story(EventType.REVISED, memory.id, {"changes": {"title": "New"}})
        seen = story(EventType.OBSERVED, memory.id, {"kind": "outcome", "positive": False})
        link = {"target": other.id, "type": "similar", "strength": 0.5}
        drawn = story(EventType.LINKED, memory.id, link)
        named = [changed.id, seen.id, drawn.id]
        step: JSON = {"kind": "revert", "created": None, "archived": [], "links": []}
        back = story(EventType.APPLIED, new_id(), step | {"events": named})
        again = story(EventType.REVERTED, back.subject, {"steps": [back.id], "events": []})
        ledger.write(lambda txn: txn.take(before))
        honest = everything(ledger)
        # What is taken back may come in after what takes it back.
        for late in ([back], [seen], [drawn, changed]):
            ledger.write(partial(_take, late))
        row = ledger.read().row(HERE, memory.id)
        assert row is not None and row.memory().title == memory.title
        # Only that there was a change can be told.
        unlike = {part for part, value in everything(ledger).items() if value != honest[part]}
        assert unlike == {"memories"}
        ledger.write(lambda txn: txn.take([again]))
        row = ledger.read().row(HERE, memory.id)
        assert row is not None and row.memory().title == "New" and row.packed is not None
        assert len(ledger.read().links(HERE, memory.id)) == 1
        stands = everything(ledger)
        ledger.write(lambda txn: txn.rebuild())
        assert everything(ledger) == stands

    def test_the_next_event_comes_after_every_event_seen_so_far(self, ledger: Ledger) -> None:
        far = Story(start=200_000 * DAY)
        ledger.write(lambda txn: txn.take([far.joined()]))
        told(ledger, Story().joined(BESIDE))
        first, second = ledger.read().events(None)
        assert second.order > first.order and second.at < first.at

    def test_the_log_is_a_chain_that_forgetting_leaves_whole(self, ledger: Ledger) -> None:
        story, memory, other = Story(ledger.bank_id), a_memory(), a_memory()
        trace = a_trace(task=memory.content, memories_used=(memory.id,))
        told(ledger, story.joined(), story.recorded(memory), story.recorded(other))
        told(ledger, story(EventType.TRACED, trace.id, {"trace": trace.to_json(), "at": 5}))
        ledger.write(lambda txn: txn.note(story(EventType.RESET, "here")))
        whole = [*ledger.read().events(None)]
        assert [event.prev for event in whole] == ["", *(event.link for event in whole[:-1])]
        assert all(event.intact and event.salt for event in whole)
        told(ledger, story(EventType.FORGOTTEN, memory.id))
        assert ledger.read().broken_chain() == []
        log = {event.id: event for event in ledger.read().events(None, redacted=True)}
        gone, quoting = log[whole[1].id], log[whole[3].id]
        assert gone.redacted and gone.salt is None and gone.digest == whole[1].digest
        assert quoting.salt is None and "[forgotten]" in str(quoting.payload)

    # Transactions

    def test_a_write_that_fails_leaves_nothing(self, ledger: Ledger) -> None:
        story, memory = Story(), a_memory()
        told(ledger, story.joined())
        before = everything(ledger)

        def work(txn: Writing) -> None:
            txn.append(story.recorded(memory))
            txn.queue.enqueue(Job(kind="k", subject="s", workspace="here"), now=1)
            txn.put_vectors("m", [PackedVector(txn.rows(HERE, [2])[0].num, 1, bytes(8))])
            txn.unanswered.put(
                [UnansweredQuestion(workspace="here", question="why", first=1, last=1)], keep=5
            )
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            ledger.write(work)
        reading = ledger.read()
        assert everything(ledger) == before
        assert len([*reading.events(None)]) == 1
        assert reading.queue.depth(None).waiting == 0
        assert reading.unanswered.of("here") == []
        assert not reading.has_vectors("m")

    def test_a_partition_that_a_failed_write_made_up_is_not_remembered(
        self, ledger: Ledger
    ) -> None:
        story, mine, other = Story(), a_memory(title="Mine"), a_memory(title="Other")

        def work(txn: Writing) -> None:
            txn.append(story.recorded(a_memory()))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            ledger.write(work)
        told(ledger, story.recorded(other, BESIDE), story.recorded(mine))
        assert [row.id for row in ledger.read().listed(HERE, Filter(), 5)] == [mine.id]
        assert [row.id for row in ledger.read().listed(BESIDE, Filter(), 5)] == [other.id]

    def test_what_was_written_is_seen_by_every_thread_and_changes_the_version(
        self, ledger: Ledger
    ) -> None:
        story, memory, seen = Story(), a_memory(), []
        before = ledger.version()
        told(ledger, story.joined(), story.recorded(memory))
        assert ledger.version() != before

        def look() -> None:
            seen.append(num_of(ledger, memory))
            seen.extend(row.num for row in ledger.cached_read().rows(HERE, seen))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert seen == [num_of(ledger, memory)] * 2

    def test_of_threads_that_write_at_once_only_the_one_that_fails_fails(
        self, ledger: Ledger
    ) -> None:
        story = Story()
        told(ledger, story.joined())
        events = [story.recorded(a_memory(title=f"Number {n}")) for n in range(24)]
        failed: list[int] = []

        def write(number: int) -> None:
            def work(txn: Writing) -> None:
                txn.append(events[number])
                if number % 6 == 0:
                    raise ZeroDivisionError

            try:
                ledger.write(work)
            except ZeroDivisionError:
                failed.append(number)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(failed) == [0, 6, 12, 18]
        assert {row.id for row in ledger.read().listed(HERE, Filter(), 50)} == {
            event.subject for n, event in enumerate(events) if n % 6
        }

    # Isolation

    def test_each_view_sees_its_own_project_team_and_org_only(self, ledger: Ledger) -> None:
        story = Story()
        mine = {scope: a_memory(title=f"Shared with the {scope}", scope=scope) for scope in Scope}
        told(ledger, story.joined(), *(story.recorded(memory) for memory in mine.values()))
        for view, scopes in (
            (HERE, [Scope.PROJECT, Scope.TEAM, Scope.ORG]),
            (BESIDE, [Scope.TEAM, Scope.ORG]),
            (ELSEWHERE, [Scope.ORG]),
            (ABROAD, []),
        ):
            ids = {mine[scope].id for scope in scopes}
            nums = np.array([num_of(ledger, memory) for memory in mine.values()], np.int64)
            reading = ledger.read()
            assert {row.id for row in reading.listed(view, Filter(), 10)} == ids
            assert {row.id for row in reading.rows(view, nums.tolist())} == ids
            assert set(reading.candidates(view, Filter(), nums).ids) == ids
            assert set(reading.titles(view, [memory.id for memory in mine.values()])) == ids
            assert len(found(ledger, view, "shared")) == len(ids)
            matching = reading.matching(view, Filter(), None)
            assert matching is not None and len(matching) == len(ids)
            seen = {m.id for m in mine.values() if reading.row(view, m.id)}
            assert seen == ids == {m.id for m in mine.values() if reading.changes_of(view, m.id)}

    @pytest.mark.parametrize("view", NOWHERE)
    def test_an_empty_view_sees_nothing(self, ledger: Ledger, view: View) -> None:
        story, memories = a_life()
        ledger.write(lambda txn: txn.take(story.told))
        first = memories[0]
        nums = [num_of(ledger, memory) for memory in memories[:3]]
        reading = ledger.read()
        assert reading.realms(view, tuple(Scope), tuple(State)) == ()
        assert reading.row(view, first.id) is None
        assert reading.rows(view, nums) == reading.listed(view, Filter(), 10) == []
        assert len(reading.candidates(view, Filter(), np.array(nums)).ids) == 0
        assert found(ledger, view, "upload") == found(ledger, view, "upload", among=nums) == []
        assert not reading.evidence(view, first.id) and not reading.links(view, first.id)
        assert not reading.changes_of(view, first.id)
        assert not reading.session_uses(view, "task 1")
        assert reading.titles(view, [first.id]) == {}
        assert reading.statistics(view)["memories"] == 0

    # Filters and full text

    def test_a_filter_gives_the_rows_that_pass_all_of_it(self, ledger: Ledger) -> None:
        story = Story()
        memories = {
            "web": a_memory(domain="web", tags=("a", "b"), agent="mika"),
            "sql": a_memory(domain="sql", tags=("a",), outcome=Outcome.FAILURE),
            "bad": a_warning("Deadlock", tags=("b",), task_type="fix"),
        }
        told(ledger, story.joined(), *(story.recorded(m) for m in memories.values()))
        names = {memory.id: name for name, memory in memories.items()}
        for filter, wanted in (
            (Filter(), {"web", "sql", "bad"}),
            (Filter(tags=("a", "b")), {"web"}),
            (Filter(domain="web"), {"web"}),
            (Filter(agent="mika", tags=("a",)), {"web"}),
            (Filter(error_type="Deadlock"), {"bad"}),
            (Filter(warnings_only=True, task_type="fix"), {"bad"}),
            (Filter(outcomes=(Outcome.FAILURE,)), {"sql", "bad"}),
            (Filter(states=(State.ARCHIVED,)), set()),
            (Filter(created_after=story.told[2].at), {"sql", "bad"}),
            (Filter(created_before=story.told[2].at), {"web"}),
        ):
            listed = ledger.read().listed(HERE, filter, 10)
            assert {names[row.id] for row in listed} == wanted, filter
            matching = ledger.read().matching(HERE, filter, None)
            assert matching is not None
            assert matching.tolist() == sorted(row.num for row in listed)
        assert ledger.read().matching(HERE, Filter(), 2) is None

    def test_full_text_finds_words_and_phrases_whatever_their_case_and_accents(
        self, ledger: Ledger
    ) -> None:
        story = Story()
        cafe = a_memory(title="Été au Café", content="parse config v2")
        other = a_memory(title="Something else", content="config is to parse, v2 is not")
        told(ledger, story.joined(), story.recorded(cafe), story.recorded(other))
        assert found(ledger, HERE, "ete") == found(ledger, HERE, "cafe") == [num_of(ledger, cafe)]
        assert found(ledger, HERE, "parse config v2") == [num_of(ledger, cafe)]
        assert set(found(ledger, HERE, "config")) == {num_of(ledger, m) for m in (cafe, other)}
        assert found(ledger, HERE, "zebra") == found(ledger, HERE) == []
        assert ledger.read().word_rows() == 2

    def test_full_text_puts_the_better_match_first_and_keeps_to_what_is_asked(
        self, ledger: Ledger
    ) -> None:
        story = Story()
        titles = ("upload retry", "upload", "retry", *(f"other {n}" for n in range(9)))
        memories = [a_memory(title=title, description="-", content="filler") for title in titles]
        hidden = a_memory(title="upload retry", description="-", content="filler")
        told(ledger, story.joined(), *(story.recorded(m) for m in memories),
             story.recorded(hidden, BESIDE),
             story(EventType.ARCHIVED, memories[2].id, {}))  # fmt: skip
        both, one, archived = (num_of(ledger, memory) for memory in memories[:3])
        assert found(ledger, HERE, "upload", "retry") == [both, one]
        assert found(ledger, HERE, "upload", "retry", limit=1) == [both]
        assert found(ledger, HERE, "upload", "retry", among=[one, 999]) == [one]
        assert found(ledger, HERE, "retry", states=(State.ARCHIVED,)) == [archived]

    def test_what_a_memory_no_longer_says_does_not_find_it(self, ledger: Ledger) -> None:
        story, memory = Story(), a_memory(title="Zebra")
        told(ledger, story.joined(), story.recorded(memory))
        told(ledger, story(EventType.REVISED, memory.id, {"changes": {"title": "Horse"}}))
        assert found(ledger, HERE, "zebra") == []
        assert found(ledger, HERE, "horse") == [num_of(ledger, memory)]

    # Evidence

    def test_the_same_observation_counts_once_and_the_later_one_stands(
        self, ledger: Ledger
    ) -> None:
        story, memory = Story(), a_memory()
        told(ledger, story.joined(), story.recorded(memory))
        once, twice = (story.observed(memory.id, True, session="s") for _ in range(2))
        changed = story.observed(memory.id, False, session="s")
        for event in (changed, once, twice):
            ledger.write(lambda txn, event=event: txn.take([event]))  # type: ignore[misc]
        (kept,) = ledger.read().evidence(HERE, memory.id)
        assert kept.positive is False
        num = num_of(ledger, memory)
        assert sum(ledger.read().tallies([num], "here")[num].values()) == WHOLE
        assert ledger.read().authors(HERE) == {("here", "mika"): (0, 1)}

    def test_evidence_that_is_rolled_up_counts_as_much_and_can_still_be_corrected(
        self, ledger: Ledger
    ) -> None:
        story, memory = Story(), a_memory()
        told(ledger, story.joined(), story.recorded(memory))
        told(ledger, *(story.observed(memory.id, True, session=f"s{n}") for n in range(3)))
        num = num_of(ledger, memory)
        before = ledger.read().tallies([num], "here")
        assert ledger.write(lambda txn: txn.roll_up(30_000 * DAY, 2)) == 2
        assert ledger.write(lambda txn: txn.roll_up(30_000 * DAY, 2)) == 1
        assert ledger.read().tallies([num], "here") == before
        told(ledger, story.observed(memory.id, False, session="s0"))
        tally = ledger.read().tallies([num], "here")[num]
        assert sorted((positive, count) for (_, positive, _), count in tally.items() if count) == [
            (False, WHOLE), (True, 2 * WHOLE),
        ]  # fmt: skip

    def test_a_task_is_known_by_its_end_and_by_what_it_used(self, ledger: Ledger) -> None:
        story, memories = a_life()
        ledger.write(lambda txn: txn.take(story.told))
        first, second, third = (memory.id for memory in memories[:3])
        reading = ledger.read()
        tasks = {task.session: task for task in reading.tasks(HERE)}
        assert {name: task.succeeded for name, task in tasks.items()} == {
            "task 1": True, "a trace": True, "task 2": False, "task 3": False, "task 4": True,
        }  # fmt: skip
        assert set(tasks["task 1"].memories) == {first, second}
        assert tasks["task 3"].held_out and tasks["task 3"].memories == (second,)
        assert {name for name, task in tasks.items() if task.told is Told.BY_MEMORY} == {"a trace"}
        assert reading.judged(HERE, "task 2") is False and reading.judged(HERE, "task 1") is None
        assert reading.ended(HERE, "task 1") and reading.ended(HERE, "task 2") is None
        assert reading.withheld(HERE, "task 3") == frozenset({second})
        assert reading.withheld(HERE, "task 1") is None
        assert reading.session_uses(HERE, "task 2") == [first, third]
        assert [giving.memories for giving in reading.givings(HERE, "task 2")] == [(third, first)]
        assert reading.givings(HERE, "task 3") == []
        assert reading.forecasts(HERE) == [(0.5, False)] * 2 + [(0.5, True)] * 3
        assert reading.uses("here") == 6
        key = evidence_key("here", first, "outcome", "mika", "task 1")
        assert reading.observed(key) == (True, True, False)
        assert reading.observed(b"?") is None
        assert reading.used_together(HERE, 1) == [(first, second, 1, 4)]
        nums = np.array([num_of(ledger, memory) for memory in memories[:3]], np.int64)
        outcomes = reading.past_outcomes(nums, "here", "m", 8)
        assert sorted(outcomes.shares.round(3).tolist()) == [
            0.333, 0.667, 0.667, 1.0, 1.0, 1.0,
        ]  # fmt: skip
        assert outcomes.vectors.tolist() == [[*range(8)]] * 6
        assert len(reading.past_outcomes(nums, "here", "another", 8).nums) == 0
        alike = reading.past_outcomes(nums, "here", "another", 8, ("m",))
        assert alike.nums.tolist() == outcomes.nums.tolist()

    @pytest.mark.parametrize("ends_first", [True, False])
    def test_a_weak_match_beside_sure_ones_has_no_part_in_the_outcome(
        self, ledger: Ledger, ends_first: bool
    ) -> None:
        story, memories = Story(), [a_memory() for _ in range(3)]
        sure, weak, later = (memory.id for memory in memories)
        told(ledger, story.joined(), *(story.recorded(memory) for memory in memories))
        ended = story(EventType.ENDED, "task", {"succeeded": True})
        alone = story(EventType.ENDED, "only weak", {"succeeded": True})
        uses = [
            story.used([sure, weak, later], "task", weak=[weak, later]),
            story.used([later], "task"),
            story.used([weak], "only weak", weak=[weak]),
        ]
        told(ledger, *((ended, alone, *uses) if ends_first else (*uses, ended, alone)))
        reading = ledger.read()
        assert reading.session_uses(HERE, "task") == [sure, weak, later]
        assert reading.session_uses(HERE, "task", sharing=True) == [sure, later]
        (giving, again) = reading.givings(HERE, "task")
        assert (giving.sharing, again.sharing) == ([sure], [later])
        outcomes = {
            id: [e.session for e in reading.evidence(HERE, id) if e.kind is EvidenceKind.OUTCOME]
            for id in (sure, weak, later)
        }
        assert outcomes == {sure: ["task"], weak: ["only weak"], later: ["task"]}
        nums = np.array([num_of(ledger, memory) for memory in memories], np.int64)
        assert reading.past_outcomes(nums, "here", "m", 8).shares.tolist() == [1.0, 1.0, 1.0]
        # What is said of the memory itself counts, and in full.
        told(ledger, story.observed(weak, True, kind="outcome", session="task"))
        assert len(ledger.read().past_outcomes(nums, "here", "m", 8).shares) == 4

    @pytest.mark.parametrize("rolled", [False, True])
    @pytest.mark.parametrize("order", ["fel", "fle", "lef", "lfe", "efl", "elf"])
    def test_the_outcome_of_a_task_counts_for_each_memory_by_its_share(
        self, ledger: Ledger, order: str, rolled: bool
    ) -> None:
        story, memories = Story(), [a_memory() for _ in range(3)]
        first, second, third = (memory.id for memory in memories)
        told(ledger, story.joined(), *(story.recorded(memory) for memory in memories))
        events = {
            "f": story.used([first, second, third], "task"),
            "l": story.used([third], "task"),
            "e": story(EventType.ENDED, "task", {"succeeded": False}),
        }
        of_one = story.observed(second, False, kind="outcome", session="task")
        nums = [num_of(ledger, memory) for memory in memories]

        def failed() -> list[int]:
            reading = ledger.read()
            tallies = reading.tallies(nums, "here")
            for num, id in zip(nums, (first, second, third), strict=True):
                row = reading.row(HERE, id)
                assert row is not None and row.masses == masses(tallies[num])
                assert reading.seen(num, "here") == (0, 0, 1, 0, 0, 1, 0, 0)
                assert tallies[num][EvidenceKind.USAGE, True, 20_000] == WHOLE
            return [tallies[num][EvidenceKind.OUTCOME, False, 20_000] for num in nums]

        for event in [events[name] for name in order]:
            ledger.write(lambda txn, event=event: txn.take([event]))  # type: ignore[misc]
            if rolled:
                ledger.write(lambda txn: txn.roll_up(30_000 * DAY, 100))
        shares = [round(WHOLE * part / 7) for part in (4, 2, 1)]
        assert failed() == shares and sum(shares) == WHOLE
        # What is told of the memory itself counts in full.
        told(ledger, of_one)
        assert failed() == [shares[0], WHOLE, shares[2]]
        ledger.write(lambda txn: txn.roll_up(30_000 * DAY, 100))
        assert failed() == [shares[0], WHOLE, shares[2]]

    # Forgetting

    def test_what_was_forgotten_is_nowhere_in_the_store(self, ledger: Ledger) -> None:
        quote = "the host of the staging area is called swordfish"
        story = Story()
        memory = a_memory(title="Log in", content=quote, tags=("swordfish",))
        trace = a_trace(task=f"somebody said: {quote}", memories_used=(memory.id,))
        told(ledger, story.joined(), story.recorded(memory))
        told(ledger, story(EventType.TRACED, trace.id, {"trace": trace.to_json(), "at": 5}))
        told(ledger, story(EventType.REVISED, memory.id, {"changes": {"title": "Log in there"}}))
        entry = UnansweredQuestion(workspace="here", question=quote, first=1, last=1)
        job = Job(kind="k", subject="s", workspace="here")
        ledger.write(lambda txn: txn.unanswered.put([entry], keep=5))
        ledger.write(lambda txn: txn.queue.enqueue(job, now=1))
        (held,) = ledger.write(lambda txn: txn.queue.claim("w", 2, 1, 3, ["k"]))
        ledger.write(lambda txn: txn.queue.checkpoint(held, {"said": quote}))
        assert b"swordfish" in self.stored(ledger)
        told(ledger, story(EventType.FORGOTTEN, memory.id))
        ledger.scrub()
        assert b"swordfish" not in self.stored(ledger)
        reading = ledger.read()
        assert reading.forgotten(memory.id) and reading.taken(memory.id)
        assert found(ledger, HERE, "swordfish") == []
        assert reading.trace(HERE, trace.id) is not None
        assert ledger.write(lambda txn: txn.take(story.told)) == 0

    def test_a_deleted_workspace_takes_what_is_its_own_and_what_it_said_of_others(
        self, ledger: Ledger
    ) -> None:
        story, mine = Story(), a_memory(title="Mine")
        shared = a_memory(title="Shared", scope=Scope.TEAM)
        told(ledger, story.joined(), story.joined(BESIDE))
        told(ledger, story.recorded(mine), story.recorded(shared, BESIDE))
        told(ledger, story.used([shared.id], "s"), story.observed(shared.id, True, session="s"))
        entry = UnansweredQuestion(workspace="here", question="why?", first=1, last=1)
        ledger.write(lambda txn: txn.unanswered.put([entry], keep=5))
        told(ledger, story(EventType.DELETED, "here", {"ids": [mine.id]}))
        reading = ledger.read()
        assert reading.forgotten(mine.id) and reading.unanswered.of("here") == []
        row = reading.row(BESIDE, shared.id)
        assert row is not None and (row.usage_count, row.packed) == (0, None)
        assert [workspace.id for workspace in reading.workspaces()] == ["beside"]
        assert all(event.workspace != "here" for event in reading.events(None)
                   if event.type is not EventType.DELETED)  # fmt: skip
        late, memory = Story(start=0), a_memory()
        ledger.write(lambda txn: txn.take([late.recorded(memory)]))
        assert ledger.read().forgotten(memory.id)
        assert memory.title.encode() not in self.stored(ledger)

    # Links

    def test_links_and_contradictions_are_known_from_both_ends(self, ledger: Ledger) -> None:
        story, one, other = Story(), a_memory(), a_memory()
        told(ledger, story.joined(), story.recorded(one), story.recorded(other))
        link = {"target": other.id, "type": str(LinkType.CONTRADICTS)}
        told(ledger, story(EventType.LINKED, one.id, link | {"strength": 0.5}))
        told(ledger, story(EventType.LINKED, one.id, link | {"strength": 0.7}))
        for memory in (one, other):
            (drawn,) = ledger.read().links(HERE, memory.id)
            assert (drawn.source, drawn.target, drawn.strength) == (one.id, other.id, 0.7)
            assert ledger.read().contradictions([memory.id]) == [(one.id, other.id)]
        hidden = a_memory()
        told(ledger, story.recorded(hidden, BESIDE))
        told(ledger, story(EventType.LINKED, one.id, {"target": hidden.id, "type": "similar",
                                                 "strength": 1.0}))  # fmt: skip
        assert [drawn.target for drawn in ledger.read().links(HERE, one.id)] == [other.id]
        told(ledger, story(EventType.FORGOTTEN, hidden.id))
        told(ledger, story(EventType.UNLINKED, one.id, link))
        assert ledger.read().links(HERE, one.id) == []
        gone = (one.id, other.id, str(LinkType.CONTRADICTS))
        assert ledger.read().linked(HERE) == {gone: None}

    def test_a_workspace_is_found_by_its_name_and_by_where_it_lies(self, ledger: Ledger) -> None:
        story = Story()
        told(ledger, story.joined(), story.joined(BESIDE))
        told(ledger, story(EventType.NAMED, "here", {"name": "project"}))
        move = {"path": "/new", "digest": "d2", "old_digest": "d1", "heir": "heir"}
        told(ledger, story(EventType.MOVED, "here", move))
        reading = ledger.read()
        assert reading.workspace_named("project") == reading.workspace_at("d2") == "here"
        assert (reading.workspace_at("d1"), reading.workspace_at("d3")) == ("heir", None)
        assert reading.place("here") == ("team", "org") and reading.place("nowhere") is None
        assert reading.joined("here") == story.told[0].at
        told(ledger, story(EventType.NAMED, "beside", {"name": "project"}))
        assert ledger.read().workspace_named("project") == "beside"

    def test_what_was_merged_belongs_to_its_new_home(self, ledger: Ledger) -> None:
        story, memory = Story(), a_memory()
        told(ledger, story.joined(), story.joined(BESIDE), story.recorded(memory, BESIDE))
        told(ledger, story(EventType.MERGED, "beside", {"into": "here"}))
        reading = ledger.read()
        assert (reading.home("beside"), reading.home("here")) == ("here", "here")
        assert reading.members("here") == ["here", "beside"]
        row = reading.row(HERE, memory.id)
        assert row is not None and row.workspace == "here"
        assert reading.row(BESIDE, memory.id) is None and reading.place("beside") is None
        found = reading.workspaces_at(["beside", "elsewhere"])
        assert found == {"beside": ("here", True), "elsewhere": ("elsewhere", False)}

    def test_batches_kin_and_traces_are_read_as_they_were_written(self, ledger: Ledger) -> None:
        story, parent = Story(), a_memory()
        child = a_memory(parents=(parent.id,))
        trace = a_trace()
        told(ledger, story.joined(), story.recorded(parent), story.recorded(child))
        steps = [story(EventType.APPLIED, "batch", {"created": n}) for n in range(2)]
        told(ledger, *steps, story(EventType.TRACED, trace.id, {"trace": trace.to_json(), "at": 5}))
        reading = ledger.read()
        assert reading.batch(HERE, "batch") == reading.batches(HERE)
        assert [event.id for event in reading.batches(HERE)] == [event.id for event in steps]
        assert reading.batches(BESIDE) == []
        for memory in (parent, child):
            assert reading.kin([memory.id]) == [(parent.id, child.id)]
        stored = reading.trace(HERE, trace.id)
        assert stored is not None and stored.task == trace.task
        assert reading.trace(BESIDE, trace.id) is None
        assert reading.traces_before(HERE, 6) == [trace.id] and not reading.traces_before(HERE, 5)
        told(ledger, story(EventType.PURGED, "here", {"ids": [trace.id]}))
        assert ledger.read().traces(HERE, 5) == []

    # Vectors

    # The audit, and what is not in the log

    def test_the_audit_is_newest_first_and_can_be_paged_and_narrowed(self, ledger: Ledger) -> None:
        story, memory = Story(), a_memory()
        told(ledger, story.joined(), story.recorded(memory))
        told(ledger, story(EventType.ARCHIVED, memory.id, {"reason": "r"}, BESIDE))
        told(ledger, story.used([memory.id], "s"), story.recorded(a_memory(), BESIDE))

        def audit(**options: Any) -> list[str]:
            wanted = replace(Wanted(workspace="here", limit=10), **options)
            return [entry.what for entry in ledger.read().audit(wanted)]

        mine = [EventType.ARCHIVED, EventType.RECORDED, EventType.JOINED]
        assert audit() == mine
        assert audit(uses=True) == [EventType.USED, *mine]
        assert audit(workspace=None) == [EventType.RECORDED, *mine]
        assert audit(subject=memory.id, uses=True) == [
            EventType.USED,
            EventType.ARCHIVED,
            EventType.RECORDED,
        ]
        assert audit(author="nobody") == audit(surface="http") == []
        newest = ledger.read().audit(Wanted(workspace="here", limit=1))[0]
        assert audit(before=newest.seq) == mine[1:]

    def test_a_note_is_in_the_audit_and_never_leaves_the_bank(self, ledger: Ledger) -> None:
        note = Story()(EventType.RESET, "here")
        ledger.write(lambda txn: txn.note(note))
        assert [e.what for e in ledger.read().audit(Wanted(workspace=None, limit=5))] == [note.type]
        assert [*ledger.read().events(None)] == []

    def test_tokens_meters_and_unanswered_questions_are_kept(self, ledger: Ledger) -> None:
        token = Token(id="t", name="ci", scope="read", workspaces=("here",), digest=b"\0\xff",
                      created_at=1, created_by="mika")  # fmt: skip
        entry = UnansweredQuestion(workspace="here", question="why?", first=1, last=1)

        def work(txn: Writing) -> None:
            txn.put_token(token)
            txn.put_token(replace(token, revoked_at=2, workspaces=None))
            txn.add_meters([("searches", 0, 2)])
            txn.add_meters([("searches", 0, 3)])
            txn.unanswered.put([entry, replace(entry, last=5, vector=b"\1")], keep=2)
            txn.unanswered.put([replace(entry, question=f"{n}?", last=n) for n in (2, 9)], keep=2)

        ledger.write(work)
        reading = ledger.read()
        assert reading.tokens() == [replace(token, revoked_at=2, workspaces=None)]
        assert ("searches", 0, 5) in reading.meters()
        assert [m.question for m in reading.unanswered.of("here")] == ["9?", "why?"]
        assert reading.unanswered.of("here")[1] == replace(entry, last=5, asked=2, vector=b"\1")
        assert reading.token("t") and reading.token("?") is None
        assert ledger.write(lambda txn: txn.unanswered.drop("here", ["why?", "never"])) == 1
        assert ledger.write(lambda txn: txn.unanswered.drop_before(10)) == 1

    def test_a_sound_store_has_nothing_wrong_with_it(self, ledger: Ledger) -> None:
        assert ledger.check() == ledger.check(deep=False) == []
        assert all(ledger.engine) and ledger.bank_id and ledger.seal and ledger.url
