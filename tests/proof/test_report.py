"""Proof that memory helps: from searches and outcomes to the report."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace

import anyio
import pytest
from click.testing import CliRunner
from tests.agent.player import Player
from tests.conftest import Clock, Opener
from tests.requirement import requirement

from reasonbank import Bank, Memory, Settings
from reasonbank.model import from_micros
from reasonbank.proof.report import report, sentences
from reasonbank.search.answer import held_out
from reasonbank.settings import Embed, ProofSettings
from reasonbank.surfaces.show.report_page import html
from reasonbank.testing.builders import a_memory, a_trace, a_warning

HALF = Settings(embed=Embed(model="hashed"), proof=ProofSettings(hold_out=0.5))
QUESTION = "the upload fails for a moment"


def work(bank: Bank, tasks: int, clock: Clock, *, helped: float, alone: float) -> None:
    """So many tasks, of which this share succeeds with a memory and without one."""
    counts = {True: 0, False: 0}
    for number in range(tasks):
        session = f"task {number}"
        reply = bank.search(QUESTION, session=session)
        assert bool(reply) is not reply.held_out
        share = alone if reply.held_out else helped
        counts[reply.held_out] += 1
        nth = counts[reply.held_out]
        bank.credit(session, succeeded=int(nth * share + 1e-9) > int((nth - 1) * share + 1e-9))
        clock.advance(days=0.01)


def test_by_default_no_task_goes_without_memory(open_bank: Opener) -> None:
    bank = open_bank()
    bank.record(a_memory())
    assert all(bank.search(QUESTION, session=f"task {n}") for n in range(50))


def test_a_held_out_task_gets_nothing_is_told_so_and_is_held_out_again(open_bank: Opener) -> None:
    bank = open_bank(settings=HALF)
    memory = bank.record(a_memory())
    session = next(f"task {n}" for n in range(100) if held_out(f"task {n}", HALF.proof))
    for _ in range(2):
        reply = bank.search(QUESTION, session=session)
        assert reply.held_out and not reply.hits and reply.tokens_used == 0
        assert "without memory" in " ".join(reply.notes)
        assert reply.to_json()["held_out"] is True
    assert bank.get(memory.id).usage_count == 0
    assert bank.search(QUESTION), "a search that names no task is not part of the experiment"


def test_another_seed_holds_out_other_tasks_about_as_many_as_asked_for() -> None:
    drawn = [
        {n for n in range(4000) if held_out(f"task {n}", ProofSettings(hold_out=0.1, seed=seed))}
        for seed in (0, 1)
    ]
    assert all(320 < len(tasks) < 480 for tasks in drawn)
    assert drawn[0] != drawn[1]


@requirement("PRV-1")
def test_the_report_gives_the_difference_that_memory_makes(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank(settings=HALF)
    memory = bank.record(a_memory())
    work(bank, 200, clock, helped=0.9, alone=0.5)
    found = report(bank.context)
    assert found.tasks == 200 and 60 < found.held_out < 140
    assert 0 < found.overall.low < found.overall.difference < found.overall.high  # type: ignore[operator]
    assert found.overall.difference == pytest.approx(0.4, abs=0.02)
    assert dict(found.by_memory) == {memory.id: found.overall}
    assert not found.harmful
    assert "+39 points" in " ".join(sentences(found))


@requirement("PRV-1")
def test_a_memory_that_hurts_is_named(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank(settings=HALF)
    memory = bank.record(a_memory(title="Retry uploads without end"))
    work(bank, 200, clock, helped=0.3, alone=0.8)
    found = report(bank.context)
    assert found.harmful == (memory.id,)
    assert "Hurts: Retry uploads without end" in " ".join(sentences(found))


@requirement("PRV-1")
def test_an_export_keeps_the_experiment(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank(settings=HALF)
    bank.record(a_memory())
    work(bank, 60, clock, helped=0.9, alone=0.5)
    file = io.StringIO()
    bank.export(file)
    file.seek(0)
    copy = open_bank("copy", settings=HALF)
    copy.import_(file, trusted=True)
    assert report(copy.context) == report(bank.context)
    bank.rebuild()
    assert report(copy.context) == report(bank.context)


def test_a_report_says_which_memories_are_worth_most_and_which_warnings_were_ignored(
    open_bank: Opener, clock: Clock
) -> None:
    bank = open_bank(settings=HALF)

    def recorded(title: str, words: str) -> Memory:
        return bank.record(a_memory(title=title, description=words, content=words))

    upload, soup = bank.record(a_memory()), recorded("Simmer", "cooking leek soup")
    tea, bread = recorded("Steep", "brewing green tea"), recorded("Knead", "baking bread dough")
    for number in range(8):
        for memory in (upload, soup, tea, bread)[: 4 if number < 6 else 2]:
            session = f"{memory.title} {number}"
            held = bank.search(memory.description, session=session, limit=1).held_out
            bank.credit(session, succeeded={upload: held, bread: not held}.get(memory, True))
    warning = bank.archive(bank.record(a_warning()).id)
    clock.advance(days=1)
    bank.store_trace(a_trace(outcome="failure", task="DeadlockDetected"))
    found = report(bank.context)
    assert (found.workspace, found.tasks, found.share) == (bank.view.workspace, 28, 0.5)
    assert 0 < found.held_out < 28
    assert [id for id, _ in found.by_memory][::3] == [bread.id, upload.id]
    assert {id for id, _ in found.by_memory} == {upload.id, soup.id, tea.id, bread.id}
    assert found.overall.with_memory + found.overall.without == 28
    assert found.mistakes.by_warning == ((warning.id, 1),)
    assert found.calibration.count == 28 - found.held_out
    assert found.titles == {each.id: each.title for each in (upload, soup, tea, bread, warning)}


def test_a_task_that_reports_on_its_memories_only_counts_as_well(open_bank: Opener) -> None:
    bank = open_bank()
    memory = bank.record(a_memory())
    bank.search(QUESTION, session="one")
    bank.outcome(memory.id, succeeded=True, session="one")
    assert report(bank.context).tasks == 1


@requirement("PRV-1")
def test_a_held_out_task_that_asks_twice_would_have_been_given_both_answers(
    open_bank: Opener,
) -> None:
    """As a task that is not held out is: else what is found late looks better than it is."""
    bank = open_bank(settings=HALF)
    upload = bank.record(a_memory())
    soup = bank.record(a_memory(title="Simmer", description="leek soup", content="leek soup"))
    session = next(f"task {n}" for n in range(100) if held_out(f"task {n}", HALF.proof))
    for question in ("sourdough", "leek soup", QUESTION, "leek soup"):
        assert bank.search(question, session=session, limit=1).held_out
    bank.credit(session, succeeded=True)
    before = report(bank.context)
    [task] = bank.context.read().tasks(bank.view)
    assert task.held_out and set(task.memories) == {upload.id, soup.id}
    bank.rebuild()
    assert report(bank.context) == before


@requirement("PRV-1")
def test_a_held_out_task_that_reports_on_a_memory_stays_held_out_and_is_not_compared(
    open_bank: Opener,
) -> None:
    """Whoever was given nothing has no memory to report on: counted on one side alone, such
    reports would be a choice of tasks."""
    bank = open_bank(settings=HALF)
    memory = bank.record(a_memory())
    session = next(f"task {n}" for n in range(100) if held_out(f"task {n}", HALF.proof))
    bank.search(QUESTION, session=session)
    bank.outcome(memory.id, succeeded=True, session=session)
    found = report(bank.context)
    assert (found.tasks, found.held_out, found.overall.without) == (1, 1, 0)
    assert found.not_counted.told_by_memory == 1
    bank.credit(session, succeeded=False)
    found = report(bank.context)
    assert (found.tasks, found.held_out, found.overall.without) == (1, 1, 1)


def test_without_held_out_tasks_nothing_is_claimed(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank()
    bank.record(a_memory())
    work(bank, 20, clock, helped=0.9, alone=0.5)
    found = report(bank.context)
    assert found.overall.difference is None and not found.by_memory
    assert "cannot be told yet" in " ".join(sentences(found))


def test_a_deleted_workspace_takes_its_tasks_along(open_bank: Opener, clock: Clock) -> None:
    bank = open_bank(settings=HALF)
    bank.record(a_memory())
    work(bank, 20, clock, helped=0.9, alone=0.5)
    bank.delete_workspace(bank.view.workspace, confirm=True)
    assert report(bank.context).tasks == 0


@requirement("PRV-2", left="forecasts calibrated on streams that were never seen")
def test_the_report_draws_predicted_against_observed_success(
    open_bank: Opener, clock: Clock
) -> None:
    bank = open_bank()
    memory = bank.record(a_memory())
    rng = random.Random(0)
    for number in range(200):
        bank.search(QUESTION, session=f"task {number}")
        bank.outcome(memory.id, succeeded=rng.random() < 0.75, session=f"task {number}")
        clock.advance(days=0.01)
    found = report(bank.context)
    assert found.calibration.count == 200
    assert sum(each.count for each in found.calibration.bins) == 200
    assert 0 < found.calibration.brier < 0.25  # type: ignore[operator]
    assert found.calibration.expected_error < 0.1  # type: ignore[operator]
    page = html(found)
    assert "<svg" in page and page.count("<circle") == len(found.calibration.bins) + len(
        found.confidence.bins
    )


@requirement("PRV-3")
def test_a_failure_that_a_warning_was_stored_for_is_a_repeated_mistake(
    open_bank: Opener, clock: Clock
) -> None:
    bank = open_bank()
    bank.store_trace(a_trace(outcome="failure", task="DeadlockDetected in the nightly job"))
    clock.advance(days=1)
    warning = bank.record(a_warning())
    clock.advance(days=1)
    bank.store_trace(a_trace(outcome="failure", task="DeadlockDetected again, rows were locked"))
    bank.store_trace(a_trace(outcome="failure", task="The disk is full"))
    bank.store_trace(a_trace(outcome="success", task="DeadlockDetected was avoided"))
    mistakes = report(bank.context).mistakes
    # The first came before the warning; the recorded warning is a failure of its own.
    assert (mistakes.failures, mistakes.warned) == (4, 1)
    assert mistakes.by_warning == ((warning.id, 1),)
    assert mistakes.rate == 0.25


@requirement("PRV-3")
def test_the_report_counts_failures_inside_of_sessions_and_whether_they_were_warned_of(
    open_bank: Opener, clock: Clock
) -> None:
    bank = open_bank()
    warning = bank.record(a_warning())

    def session(name: str, *, shown: bool, printed: str) -> None:
        clock.advance(days=1)
        if shown:
            bank.search("DeadlockDetected rows locked in any order", session=name)
        at = from_micros(clock.now + 1_000_000).isoformat()
        step = {"iteration": 1, "action": "command", "content": "migrate", "at": at,
                "feedback": f"exit code {1 if printed else 0}\n{printed}"}  # fmt: skip
        bank.store_trace({"task": "migrate", "trajectory": [step], "metadata": {"session": name}})

    session("unwarned", shown=False, printed="DeadlockDetected: rows")
    session("unheeded", shown=True, printed="DeadlockDetected: rows")
    session("heeded", shown=True, printed="")
    session("another", shown=False, printed="")
    met = report(bank.context).in_sessions
    assert (met.all.again, met.all.although_shown, met.all.avoided) == (2, 1, 1)
    assert [id for id, _ in met.by_warning] == [warning.id]
    assert "although it was shown" in " ".join(sentences(report(bank.context)))


@requirement("PRV-3")
def test_a_warning_that_a_failed_trace_was_turned_into_is_no_second_failure(
    open_bank: Opener, clock: Clock
) -> None:
    bank = open_bank()
    warning = bank.record(a_warning())
    bank.store_trace(
        a_trace(outcome="failure", task="DeadlockDetected", memories_learned=(warning.id,))
    )
    assert report(bank.context).mistakes.failures == 1


def test_the_command_prints_sentences_json_or_a_page(open_bank: Opener, clock: Clock) -> None:
    from reasonbank.surfaces.cli import main

    bank = open_bank(settings=replace(HALF))
    bank.record(a_memory(title="<b>Retry</b>"))
    work(bank, 60, clock, helped=0.9, alone=0.5)
    bank.close()
    where = ["--bank", open_bank.url(), "--workspace", str(open_bank.project())]
    environment = {"REASONBANK_EMBED_MODEL": "hashed"}

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["report", *where, *arguments], env=environment)
        assert result.exit_code == 0, result.output
        return result.output

    assert "60 tasks ended" in said()
    assert json.loads(said("--json"))["memory"]["difference"] > 0
    page = said("--html")
    assert "<h1>Learning report" in page and "&lt;b&gt;Retry" in page


@requirement("PRV-1")
@pytest.mark.parametrize("held", [True, False])
def test_a_task_that_the_agent_solves_is_part_of_the_experiment(
    open_bank: Opener, held: bool
) -> None:
    share = ProofSettings(hold_out=1.0 if held else 1e-9)
    bank = open_bank(settings=Settings(embed=Embed(model="hashed"), proof=share))
    bank.record(a_memory())
    model = Player(scores={"a": 0.9})
    anyio.run(lambda: bank.solve(QUESTION, model=model, mode="off"))
    found = report(bank.context)
    assert (found.tasks, found.held_out) == (1, int(held))
    assert (found.overall.without, found.overall.with_memory) == (int(held), int(not held))
