"""The smallest stories in which banks that exchanged everything once did not agree.

Each was found by ``test_convergence.py``, and is kept for its class of defect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fault_tools import a_memory, imported
from replicas import DAY, HOUR, Replicas, disagreements
from tests.requirement import requirement

from reasonbank.model import LinkType, Outcome, Scope, Trace, derived_id

ONE, TWO, THREE = (derived_id("memory", str(number)) for number in range(3))
TRACE = derived_id("trace")
LESSON = {"title": "Ports learned", "description": "When it is slow", "content": "Look at it.",
          "tags": ["learned"], "first_step": 1, "last_step": 1, "outcome": "success"}  # fmt: skip

pytestmark = requirement("MEM-10")


@pytest.fixture
def replicas() -> Iterator[Replicas]:
    banks = Replicas((0, 0))
    yield banks
    banks.close()


def known_to_both(replicas: Replicas, *ids: str, scope: Scope = Scope.PROJECT) -> None:
    for id in ids:
        replicas.bank(0).record(a_memory(f"Ports {id}", id=id, scope=scope))
    replicas.send(0, 1)
    replicas.wait(HOUR)


# What a memory is


def test_a_memory_recorded_in_two_banks_is_as_old_as_its_first_recording(
    replicas: Replicas,
) -> None:
    replicas.bank(1, author="bob").record(a_memory(id=ONE))
    replicas.wait(HOUR)
    replicas.bank(0, author="ann").record(a_memory(id=ONE))
    assert disagreements(replicas) == {}
    assert {bank.get(ONE).author for bank in replicas.banks} == {"bob"}


def test_a_memory_recorded_in_two_banks_has_the_scope_and_source_of_its_first_recording(
    replicas: Replicas,
) -> None:
    replicas.bank(1).record(a_memory(id=ONE, scope=Scope.TEAM, outcome=Outcome.FAILURE))
    replicas.wait(HOUR)
    replicas.bank(0).record(a_memory(id=ONE, outcome=Outcome.SUCCESS))
    assert disagreements(replicas) == {}


def test_a_memory_recorded_in_two_banks_has_the_parents_and_stage_of_its_first_recording(
    replicas: Replicas,
) -> None:
    known_to_both(replicas, TWO, THREE)
    replicas.bank(1).record(a_memory(id=ONE, parents=(TWO,)))
    replicas.wait(HOUR)
    replicas.bank(0).record(a_memory(id=ONE, parents=(THREE,)))
    assert disagreements(replicas) == {}


def test_the_same_plain_file_imported_in_two_banks_gives_one_memory(replicas: Replicas) -> None:
    line = a_memory("Ports plainly").to_json()
    del line["id"]
    imported(replicas.bank(1, author="bob"), json.dumps(line))
    replicas.wait(HOUR)
    imported(replicas.bank(0, author="ann"), json.dumps(line))
    assert disagreements(replicas) == {}


def test_recordings_of_the_same_microsecond_are_ordered_alike(replicas: Replicas) -> None:
    for number in (1, 0):
        replicas.bank(number, author=f"author {number}").record(a_memory(f"Ports {number}", id=ONE))
    assert disagreements(replicas) == {}


# Uses and observations


def test_uses_are_not_added_up_again_when_another_recording_of_the_memory_comes_in(
    replicas: Replicas,
) -> None:
    for number in (0, 1):
        replicas.bank(number).record(a_memory("Ports", id=ONE))
        replicas.bank(number).search("Ports now", session="morning")
        replicas.wait(HOUR)
    assert disagreements(replicas) == {}
    assert {bank.get(ONE).usage_count for bank in replicas.banks} == {2}


def test_of_two_reports_under_one_key_the_later_stands_with_its_rater(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(0, author="ann").outcome(ONE, succeeded=True, session="morning")
    replicas.wait(HOUR)
    replicas.bank(1, author="bob").outcome(ONE, succeeded=False, session="morning")
    assert disagreements(replicas) == {}


def test_reports_of_the_same_microsecond_are_ordered_alike(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(0, author="ann").outcome(ONE, succeeded=True, session="morning")
    replicas.bank(1, author="bob").outcome(ONE, succeeded=False, session="morning")
    assert disagreements(replicas) == {}


def test_a_task_that_searched_in_two_banks_has_one_share_for_each_memory(
    replicas: Replicas,
) -> None:
    known_to_both(replicas, ONE, TWO)
    replicas.bank(0).search("Ports now", session="morning", limit=1)
    replicas.wait(HOUR)
    replicas.bank(1).search("Ports now", session="morning", limit=2)
    replicas.bank(1).credit("morning", succeeded=True)
    replicas.wait(HOUR)
    replicas.bank(0).credit("morning", succeeded=False)
    assert disagreements(replicas) == {}


def test_an_outcome_that_came_before_its_question_gets_its_share(replicas: Replicas) -> None:
    known_to_both(replicas, ONE, TWO)
    replicas.bank(0).search("Ports now", session="morning")
    replicas.wait(HOUR)
    replicas.bank(1).outcome(ONE, succeeded=True, session="morning")
    replicas.wait(HOUR)
    replicas.bank(1).credit("morning", succeeded=False)
    assert disagreements(replicas) == {}


def test_what_was_rolled_up_here_and_corrected_there_is_counted_once(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(0).outcome(ONE, succeeded=True, session="morning")
    replicas.send(0, 1)
    replicas.wait(40 * DAY)
    replicas.bank(0).maintain()
    replicas.bank(1).outcome(ONE, succeeded=False, session="morning")
    assert disagreements(replicas) == {}


def test_a_use_that_was_rolled_up_and_then_heard_of_earlier_is_counted_once(
    replicas: Replicas,
) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(1).search("Ports now", session="morning")
    replicas.banks[1].store.flush()
    replicas.wait(HOUR)
    replicas.bank(0).search("Ports now", session="morning")
    replicas.banks[0].store.flush()
    replicas.wait(40 * DAY)
    replicas.bank(0).maintain()
    assert disagreements(replicas) == {}


def test_evidence_counts_for_the_author_of_the_recording_that_stands(replicas: Replicas) -> None:
    replicas.bank(1, author="bob").record(a_memory(id=ONE))
    replicas.wait(HOUR)
    replicas.bank(0, author="ann").record(a_memory(id=ONE))
    replicas.bank(0).feedback(ONE, helpful=True)
    assert disagreements(replicas) == {}


# Links


@pytest.mark.parametrize("linker", [0, 1])
def test_an_older_unlink_that_arrives_later_removes_nothing(
    replicas: Replicas, linker: int
) -> None:
    known_to_both(replicas, ONE, TWO)
    replicas.bank(1 - linker).unlink(ONE, TWO, type=LinkType.SIMILAR)
    # Later is what knows of more events; clocks say nothing.
    for number in range(2):
        replicas.bank(linker).record(a_memory(f"Ports in between {number}"))
    replicas.bank(linker).link(ONE, TWO, type=LinkType.SIMILAR, strength=0.5)
    assert disagreements(replicas) == {}
    assert [len(bank.links(ONE)) for bank in replicas.banks] == [1, 1]


def test_a_link_to_a_memory_that_another_bank_forgot_is_gone(replicas: Replicas) -> None:
    known_to_both(replicas, ONE, TWO)
    replicas.bank(1).forget(TWO)
    replicas.wait(HOUR)
    replicas.bank(0).link(ONE, TWO, type=LinkType.SIMILAR, strength=0.5)
    assert disagreements(replicas) == {}


def test_a_link_whose_target_is_not_here_yet_is_no_link_elsewhere_either(
    replicas: Replicas,
) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(0, 1).record(a_memory(id=TWO, scope=Scope.TEAM))
    replicas.bank(0).link(ONE, TWO, type=LinkType.SIMILAR, strength=0.5)
    replicas.send(0, 1, only=0)
    replicas.bank(1).unlink(ONE, TWO, type=LinkType.SIMILAR)
    assert disagreements(replicas) == {}


# Forgetting


def test_a_memory_forgotten_in_two_banks_has_one_tombstone(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    for number in (1, 0):
        replicas.bank(number).forget(ONE)
        replicas.wait(HOUR)
    assert disagreements(replicas) == {}


def test_an_author_of_whom_nothing_is_left_leaves_no_row(replicas: Replicas) -> None:
    replicas.bank(0).record(a_memory(id=ONE))
    replicas.bank(0).forget(ONE)
    assert disagreements(replicas) == {}


def test_children_of_a_forgotten_memory_have_the_same_kin_everywhere(replicas: Replicas) -> None:
    known_to_both(replicas, ONE, TWO)
    replicas.bank(0).record(a_memory(id=THREE, parents=(ONE, TWO)))
    replicas.wait(HOUR)
    replicas.bank(1).forget(ONE)
    assert disagreements(replicas) == {}


def test_a_memory_forgotten_here_and_recorded_anew_there_is_forgotten(replicas: Replicas) -> None:
    replicas.bank(0).record(a_memory(id=ONE))
    replicas.bank(0).forget(ONE)
    replicas.wait(HOUR)
    replicas.bank(1).record(a_memory("Ports", id=ONE))
    replicas.bank(1).search("Ports now", session="morning")
    replicas.bank(1).credit("morning", succeeded=True)
    assert disagreements(replicas) == {}


def test_a_trace_that_quotes_what_another_bank_forgot_quotes_nothing(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(1).forget(ONE)
    replicas.wait(HOUR)
    quote = replicas.bank(0).get(ONE).content
    replicas.bank(0).store_trace(Trace(task=f"Do: {quote}", id=TRACE, memories_used=(ONE,)))
    assert disagreements(replicas) == {}
    assert not any(quote in bank.trace(TRACE).task for bank in replicas.banks)


# Traces and tasks


def test_a_trace_stored_in_two_banks_is_the_first_of_them(replicas: Replicas) -> None:
    for number in (1, 0):
        replicas.bank(number).store_trace(Trace(task=f"Task {number}", id=TRACE))
        replicas.wait(HOUR)
    assert disagreements(replicas) == {}


def test_a_trace_purged_in_one_bank_is_purged_wherever_it_arrives(replicas: Replicas) -> None:
    replicas.bank(0).store_trace(Trace(task="Task", id=TRACE))
    replicas.send(0, 1)
    replicas.wait(2 * DAY)
    replicas.bank(1).purge_traces(older_than_days=1)
    assert disagreements(replicas) == {}
    assert [bank.traces() for bank in replicas.banks] == [[], []]


def test_a_trace_stored_in_two_banks_and_purged_in_one_can_still_be_read_or_is_gone(
    replicas: Replicas,
) -> None:
    for number in (1, 0):
        replicas.bank(number).store_trace(Trace(task=f"Task {number}", id=TRACE))
        replicas.wait(DAY)
    replicas.bank(1).purge_traces(older_than_days=1)
    assert disagreements(replicas) == {}


def test_what_two_banks_learned_from_one_session_is_told_alike(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    for number, outcome in ((1, "success"), (0, "failure")):
        bank = replicas.bank(number)
        given = bank.distil_prepare(Trace(task="Task", id=TRACE, memories_used=(ONE,)))
        bank.distil_submit(given.ticket, {"memories": [LESSON], "outcome": outcome})
        replicas.wait(HOUR)
    assert disagreements(replicas) == {}


def test_a_task_that_was_held_out_in_two_banks_would_have_got_the_same(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(1).record(a_memory("Ports two", id=TWO))
    replicas.bank(1).search("Ports now", session="night")
    replicas.wait(HOUR)
    replicas.bank(0).search("Ports now", session="night")
    assert disagreements(replicas) == {}


def test_of_two_ends_of_a_task_the_later_stands_and_is_when_it_ended(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(1).search("Ports now", session="night")
    replicas.bank(1).credit("night", succeeded=True)
    replicas.wait(HOUR)
    replicas.bank(0).search("Ports now", session="night")
    replicas.wait(HOUR)
    replicas.bank(0).credit("night", succeeded=False)
    assert disagreements(replicas) == {}


def test_ends_of_the_same_microsecond_are_ordered_alike(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(0).credit("morning", succeeded=True)
    replicas.bank(1).credit("morning", succeeded=False)
    assert disagreements(replicas) == {}


# Workspaces


def test_of_two_teams_the_one_that_was_joined_last_stands(replicas: Replicas) -> None:
    known_to_both(replicas, ONE, scope=Scope.TEAM)
    replicas.bank(1, team="blue").record(a_memory("Ports blue", scope=Scope.TEAM))
    for number in range(2):
        replicas.bank(0).record(a_memory(f"Ports in between {number}"))
    replicas.bank(0, team="red").record(a_memory("Ports red", scope=Scope.TEAM))
    assert disagreements(replicas) == {}
    assert {bank.workspaces()[0].team for bank in replicas.banks} == {"red"}


def test_of_two_moves_the_later_stands(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    id = replicas.bank(0).view.workspace
    replicas.bank(1).move_workspace(id, "/there")
    for number in range(2):
        replicas.bank(0).record(a_memory(f"Ports in between {number}"))
    replicas.bank(0).move_workspace(id, "/elsewhere")
    assert disagreements(replicas) == {}
    assert {bank.workspaces()[0].path for bank in replicas.banks} == {"/elsewhere"}


def test_two_workspaces_moved_to_one_path_are_told_apart_alike(replicas: Replicas) -> None:
    for number, place in ((1, 1), (0, 0)):
        bank = replicas.bank(number, place)
        bank.record(a_memory(f"Ports {number}"))
        bank.move_workspace(bank.view.workspace, "/there")
        replicas.wait(HOUR)
    assert disagreements(replicas) == {}


def test_a_name_given_to_two_workspaces_goes_to_the_one_named_last(replicas: Replicas) -> None:
    for number in (1, 0):
        bank = replicas.bank(number, number)
        bank.record(a_memory(f"Ports {number}"))
        bank.name_workspace(bank.view.workspace, "one")
        replicas.wait(HOUR)
    assert disagreements(replicas) == {}


def test_a_name_that_was_passed_on_does_not_come_back(replicas: Replicas) -> None:
    """Named one, then two, while another bank names another workspace one in between."""
    for number in (0, 1):
        replicas.bank(0, number).record(a_memory(f"Ports {number}"))
    replicas.send(0, 1)
    replicas.wait(HOUR)
    first, second = (replicas.bank(0, number).view.workspace for number in (0, 1))
    replicas.bank(0).name_workspace(first, "one")
    replicas.wait(HOUR)
    replicas.bank(1).name_workspace(second, "one")
    replicas.wait(HOUR)
    replicas.bank(0).name_workspace(first, "two")
    assert disagreements(replicas) == {}


def deleted_elsewhere(replicas: Replicas, place: int = 0) -> None:
    bank = replicas.bank(1, place)
    bank.delete_workspace(bank.view.workspace, confirm=True)
    replicas.wait(HOUR)


def test_what_was_recorded_before_a_deletion_elsewhere_is_gone(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    replicas.bank(0).record(a_memory("Ports two", id=TWO))
    replicas.bank(0).feedback(ONE, helpful=True)
    replicas.wait(HOUR)
    deleted_elsewhere(replicas)
    assert disagreements(replicas) == {}


def test_what_was_recorded_after_a_deletion_elsewhere_stays(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    deleted_elsewhere(replicas)
    replicas.bank(0).record(a_memory("Ports two", id=TWO))
    replicas.bank(0).name_workspace(replicas.bank(0).view.workspace, "one")
    assert disagreements(replicas) == {}


def test_a_deletion_takes_what_the_workspace_said_of_others_and_no_more(
    replicas: Replicas,
) -> None:
    replicas.bank(0, 1).record(a_memory("Ports shared", id=ONE, scope=Scope.TEAM))
    replicas.bank(0, 1).record(a_memory("Ports shared too", id=TWO, scope=Scope.TEAM))
    for place in (0, 1):
        replicas.bank(0, place).record(a_memory(f"Locks {place}"))
        replicas.bank(0, place).search("Ports now", session="morning")
        replicas.bank(0, place).credit("morning", succeeded=not place)
        replicas.wait(HOUR)
    replicas.send(0, 1)
    deleted_elsewhere(replicas)
    assert disagreements(replicas) == {}


def test_a_workspace_deleted_here_and_moved_there_is_alike_in_both(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    deleted_elsewhere(replicas)
    replicas.bank(0).move_workspace(replicas.bank(0).view.workspace, "/there")
    assert disagreements(replicas) == {}


def test_a_workspace_deleted_in_two_banks_is_deleted_once(replicas: Replicas) -> None:
    known_to_both(replicas, ONE)
    deleted_elsewhere(replicas)
    replicas.bank(0).record(a_memory("Ports two", id=TWO))
    replicas.bank(0).delete_workspace(replicas.bank(0).view.workspace, confirm=True)
    assert disagreements(replicas) == {}


def test_a_memory_of_a_deleted_workspace_that_another_recorded_as_well(replicas: Replicas) -> None:
    """The same id in two workspaces: what is left of it is left everywhere."""
    replicas.bank(1, 0).record(a_memory(id=ONE))
    replicas.wait(HOUR)
    replicas.bank(0, 1).record(a_memory(id=ONE))
    replicas.wait(HOUR)
    deleted_elsewhere(replicas)
    assert disagreements(replicas) == {}


def test_a_memory_recorded_before_and_after_a_deletion_that_did_not_know_it() -> None:
    banks = Replicas()
    banks.bank(0).record(a_memory("Ports", id=TWO))
    banks.send(0, 2)
    banks.wait(HOUR)
    banks.bank(1).record(a_memory(id=ONE))
    banks.wait(HOUR)
    banks.bank(2).delete_workspace(banks.bank(2).view.workspace, confirm=True)
    banks.wait(HOUR)
    banks.bank(0).record(a_memory(id=ONE))
    banks.send(1, 0)
    found = disagreements(banks)
    banks.close()
    assert found == {}


@pytest.mark.parametrize("first", [0, 1])
def test_a_deletion_leaves_the_shares_of_credit_of_others_as_they_are(
    replicas: Replicas, first: int
) -> None:
    for id in (ONE, TWO):
        replicas.bank(0, 1).record(a_memory(f"Ports {id}", id=id, scope=Scope.TEAM))
    replicas.bank(0, 0).record(a_memory("Ports here", id=THREE))
    for place in (first, 1 - first):
        limit = 1 + place
        replicas.bank(0, place).search("Ports now", session="morning", limit=limit)
        replicas.bank(0, place).credit("morning", succeeded=True)
        replicas.wait(HOUR)
    replicas.send(0, 1)
    deleted_elsewhere(replicas)
    assert disagreements(replicas) == {}


# Clocks


def test_a_bank_a_year_ahead_agrees_with_the_others_once_its_time_has_come() -> None:
    banks = Replicas((0, 365 * DAY))
    known_to_both(banks, ONE)
    banks.bank(1).outcome(ONE, succeeded=True, session="morning")
    banks.wait(HOUR)
    banks.bank(0).outcome(ONE, succeeded=False, session="morning")
    found: Any = disagreements(banks)
    banks.close()
    assert found == {}
