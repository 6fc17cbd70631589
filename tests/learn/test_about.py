"""What is known of a lesson besides its text, whoever drew it; and what it came from."""

from dataclasses import replace

import anyio
import pytest
from tests.agent.player import LESSON, Player
from tests.jobs.test_learner import MENDED, command, learned
from tests.learn import transcript_writers as writers
from tests.learn.plain_sessions import SEEN
from tests.learn.test_distil import a_lesson, a_warning
from tests.learn.transcript_writers import C, E, U
from tests.requirement import requirement

from reasonbank import Outcome, Source, Trace
from reasonbank.agent.solve import solve
from reasonbank.learn import tickets, transcripts
from reasonbank.learn.about import difficulty, task_type
from reasonbank.learn.passive import worth_keeping
from reasonbank.learn.session import to_trace
from reasonbank.llm.scripted import Scripted
from reasonbank.model import ErrorContext, new_id
from reasonbank.search import subjects
from reasonbank.settings import Passive
from reasonbank.testing.builders import a_memory, a_trace

FAILED = command(
    2, "cargo test", 101,
    "thread 'main' panicked at src/lib.rs:3\n"
    "stack backtrace:\n   0: core::panicking\n   1: app::run",
)  # fmt: skip


def a_session(steps, agent="codex"):
    text = "\n".join(
        {"codex": writers.codex, "claude-code": writers.claude_code}[agent]("a", steps)
    )
    return to_trace(transcripts.read(agent, text), None)


def only(bank, trace, model=None):
    [id] = learned(bank, trace, model).memories_learned
    return bank.get(id)


@requirement("MEM-1")
@pytest.mark.parametrize("agent", ["codex", "claude-code"])
def test_rules_fill_in_subject_kind_agent_and_difficulty(plain_bank, agent):
    memory = only(plain_bank, a_session(SEEN["go mod tidy"].steps, agent))
    assert memory.domain == memory.error_context.task_domain == "go"
    assert (memory.task_type, memory.agent, memory.difficulty) == ("debugging", agent, "simple")
    assert memory.source is Source.DISTILLED


@requirement("MEM-1")
def test_so_does_a_model_with_the_error_as_it_was_printed(plain_bank):
    trace = a_trace(task="Deploy the crate", outcome=Outcome.FAILURE,
                    trajectory=(FAILED,), metadata={"agent": "codex"})  # fmt: skip
    memory = only(plain_bank, trace, Scripted([{"memories": [a_warning()]}]))
    error = memory.error_context
    assert error.error_type == "Overload", "what the model says stays"
    assert error.error_message == "src/lib.rs:3"
    assert error.stack_trace.startswith("stack backtrace:\n   0: core::panicking")
    assert error.task_domain == memory.domain == "rust"
    assert (memory.task_type, memory.agent, memory.difficulty) == ("deployment", "codex", "simple")


@requirement("MEM-1")
def test_so_does_an_agent_that_thinks_itself(plain_bank):
    trace = a_trace(task="Fix the build", trajectory=(FAILED,), metadata={"agent": "claude-code"})
    given = tickets.prepare(plain_bank.context, trace)
    answer = {"memories": [a_lesson(outcome="success")]}
    [id] = tickets.submit(plain_bank.context, given.ticket, answer).learned
    memory = plain_bank.get(id)
    assert (memory.domain, memory.task_type, memory.agent) == ("rust", "debugging", "claude-code")


@requirement("MEM-1")
def test_what_solving_taught_says_so(plain_bank):
    model = Player(scores={"a": 0.9}, lessons=[LESSON])
    task = "Fix the slow SQL query"
    solution = anyio.run(lambda: solve(plain_bank.context, task, model=model, mode="off"))
    memory = plain_bank.get(solution.memories_learned[0])
    assert memory.source is Source.SOLVED and memory.agent == "reasonbank"
    assert (memory.domain, memory.task_type, memory.difficulty) == (
        "databases", "debugging", "simple")  # fmt: skip


@requirement("MEM-1")
def test_an_exchange_that_was_kept_unasked_has_a_subject():
    answer = (
        "Use an index, because Postgres reads the whole table otherwise:\n```sql\nselect 1\n```"
    )
    memory = worth_keeping("Why is my query slow?", answer * 5, Passive(), workspace="w")
    assert (memory.domain, memory.task_type) == ("databases", "question")
    assert memory.source is Source.PASSIVE


def test_what_nobody_can_know_stays_open(plain_bank):
    trace = a_trace(task="Think about it", trajectory=(), metadata={"agent": ["no", "name"]})
    model = Scripted([{"memories": [a_lesson()]}])
    memory = only(plain_bank, trace, model)
    assert (memory.domain, memory.agent, memory.difficulty) == (None, None, None)


@pytest.mark.parametrize(
    ("task", "failed", "expected"),
    [
        ("Why is the sky blue?", False, "question"), ("Fix the login", False, "debugging"),
        ("Roll out 2.3", False, "deployment"), ("add a button", False, "feature"),
        ("go on", True, "debugging"), ("go on", False, None), ("", False, None),
    ],
)  # fmt: skip
def test_a_task_says_of_what_type_it_is(task, failed, expected):
    assert task_type(task, failed=failed) == expected


def test_difficulty_follows_steps_and_failures():
    found = [difficulty(0, 0), difficulty(3, 1), difficulty(3, 2), difficulty(30, 0)]
    assert found == [None, "simple", "moderate", "moderate"]
    assert difficulty(9, 4) == difficulty(99, 0) == "hard"


def test_everyday_words_name_no_subject():
    assert subjects.of_text("go on to the next kind of service") is None
    assert subjects.of_text("the pytest run in the Postgres container needs psql") == "databases"


# Parents

KNOWN = a_memory(
    title="Install missing Python modules with pip when pytest fails",
    description="When pytest fails with ModuleNotFoundError: No module named something",
    content="Run `pip install` for the module that pytest cannot import, then pytest again.",
)
BY_MODEL = a_lesson(
    title="Install requests with pip when pytest cannot import it",
    description="When pytest fails with ModuleNotFoundError: No module named 'requests'",
    content="Run `pip install requests`: pytest cannot import the module without it.",
)


@requirement("GEN-1")
@pytest.mark.parametrize("by", ["rules", "model"])
def test_a_lesson_that_refines_what_its_task_used_names_it_as_parent(bank, by):
    model = Scripted([{"memories": [BY_MODEL]}]) if by == "model" else None
    root = bank.record(
        a_memory(title="Boil eggs", description="At breakfast", content="Six minutes.")
    )
    known = bank.record(replace(KNOWN, id=new_id(), parents=(root.id,)))
    trace = Trace(task=MENDED.task, trajectory=MENDED.trajectory, memories_used=(known.id, root.id))
    lesson = only(bank, trace, model)
    assert lesson.parents == (known.id,), "what it has nothing to do with is no parent"
    assert (known.stage, lesson.stage) == (1, 2)


@requirement("GEN-1")
def test_what_the_task_searched_for_was_given_to_it_too(bank):
    known = bank.record(replace(KNOWN, id=new_id()))
    trace = Trace(task=MENDED.task, trajectory=MENDED.trajectory, metadata={"session": "s1"})
    assert bank.search("pytest fails: ModuleNotFoundError", session="s1")[0].memory.id == known.id
    assert only(bank, trace).parents == (known.id,)


@requirement("GEN-1")
def test_what_a_transcript_shows_was_put_before_the_agent_is_a_parent(bank):
    known = bank.record(replace(KNOWN, id=new_id()))
    steps = [
        U(f"run the tests\n{bank.get(known.id).format_for_prompt()}"),
        C("pytest -q", 1, "E   ModuleNotFoundError: No module named 'requests'"),
        C("pip install requests", 0), C("pytest -q", 0, "3 passed in 0.1s"),
    ]  # fmt: skip
    trace = a_session(steps, "claude-code")
    assert trace.metadata["memories_shown"] == [known.id]
    assert only(bank, trace).parents == (known.id,)
    assert bank.get(known.id).confidence == known.confidence, "shown is not used"


@requirement("GEN-1")
def test_a_lesson_about_the_same_failure_refines_it_whatever_its_words(plain_bank):
    error = ErrorContext(
        error_type="ModuleNotFoundError", corrective_guidance="ask",
        failure_pattern="ModuleNotFoundError: No module named 'requests'",
    )  # fmt: skip
    known = plain_bank.record(a_memory(outcome=Outcome.FAILURE, error_context=error))
    trace = Trace(task="x", trajectory=MENDED.trajectory, memories_used=(known.id,))
    assert only(plain_bank, trace).parents == (known.id,)


def test_ids_that_are_not_here_make_no_parents_and_no_harm(plain_bank):
    told = {"memories_shown": [new_id(), "x", 7, None], "session": 7}
    trace = Trace(task="x", trajectory=MENDED.trajectory, metadata=told, memories_used=(new_id(),))
    assert only(plain_bank, trace).parents == ()


def test_an_edit_alone_gives_the_subject_of_its_file(plain_bank):
    steps = [U("fix the page"), C("./check", 1, "Error: bad colour"), E("a.css", "color: red"),
             C("./check", 0)]  # fmt: skip
    assert only(plain_bank, a_session(steps)).domain == "web"
