"""Something failed, something was done, the same passed: whatever the trade, that is a lesson."""

import pytest
from tests.learn import transcript_writers as writers
from tests.learn.held_out_sessions import FRESH, HELD_OUT, NOTHING_FRESH, NOTHING_HELD_OUT
from tests.learn.plain_sessions import NOTHING_SEEN, SEEN
from tests.learn.transcript_writers import C, E, U
from tests.requirement import requirement

from reasonbank import Outcome
from reasonbank.learn.rules.fixes import MOST_FIXES, _pairs
from reasonbank.learn.rules.lesson import Run
from reasonbank.learn.rules.rules import findings
from reasonbank.learn.transcripts import claude_code, codex

LESSONS = {**SEEN, **HELD_OUT, **FRESH}
NOTHING = {**NOTHING_SEEN, **NOTHING_HELD_OUT, **NOTHING_FRESH}
AGENTS = [(writers.claude_code, claude_code.read), (writers.codex, codex.read)]


def learned(steps, name="a", agent=AGENTS[0]):
    write, read = agent
    return findings(read(write(name, steps)))


@requirement("DIS-9")
@pytest.mark.parametrize("agent", AGENTS, ids=["claude code", "codex"])
@pytest.mark.parametrize("name", LESSONS)
def test_what_was_done_between_a_failure_and_its_end_is_a_lesson(name, agent):
    plain = LESSONS[name]
    (lesson,) = learned(plain.steps, name, agent)
    memory = lesson.memory
    assert plain.remedy in memory.content
    assert plain.error in memory.content
    assert memory.error_context.error_message
    assert not [word for word in plain.noise if word in memory.content + memory.title]
    assert memory.outcome is Outcome.SUCCESS


@requirement("DIS-9")
@pytest.mark.parametrize("agent", AGENTS, ids=["claude code", "codex"])
@pytest.mark.parametrize("name", NOTHING)
def test_a_session_that_teaches_nothing_gives_nothing(name, agent):
    assert [found.memory.title for found in learned(NOTHING[name], name, agent)] == []


def test_where_several_things_were_done_none_is_claimed_to_be_the_one():
    (lesson,) = learned(LESSONS["one of several"].steps)
    assert "one of `docker compose up -d redis`, `make fixtures` helped" in lesson.memory.title
    assert "one of these, or several together" in lesson.memory.content


def test_a_command_beside_an_edit_counts_only_where_it_has_to_do_with_the_failure():
    def between(*steps):
        failure = "src/a.c:3:1: error: unknown type name 'foo_t'"
        return learned([U("build it"), C("make app", 2, failure), *steps, C("make app", 0)])

    (alone,) = between(E("src/a.c", "#include <foo.h>"), C("wibble --now", 0))
    assert "wibble" not in alone.memory.content
    (both,) = between(E("src/a.c", "#include <foo.h>"), C("sudo apt-get install libfoo-dev", 0))
    assert "#include <foo.h>" in both.memory.content
    assert "`sudo apt-get install libfoo-dev`" in both.memory.content


def test_of_a_session_without_end_only_a_bounded_part_is_compared():
    """A thousand failures, each mended far away: only the latest that are open are kept."""
    failed = [C(f"pytest t{n}", 1, "E   ValueError: bad") for n in range(1_000)]
    passed = [C(f"pytest t{n}", 0, "1 passed in 0.1s") for n in range(1_000)]
    session = claude_code.read(writers.claude_code("a", [U("go"), *failed, *passed]))
    pairs = list(_pairs([Run(command) for command in session.commands()]))
    assert len(pairs) == MOST_FIXES
    assert findings(session) == []


def test_the_number_of_a_process_is_not_part_of_a_lesson():
    (lesson,) = learned(LESSONS["free a port"].steps)
    assert "4711" not in str(lesson.memory.to_json())


def test_a_stack_trace_is_kept_where_there_is_one():
    (lesson,) = learned(LESSONS["pip missing extra"].steps)
    assert lesson.memory.error_context.stack_trace == (
        "Traceback (most recent call last):\n"
        '  File "~/app/server.py", line 3, in <module>\n'
        "    import uvicorn\n"
        "ModuleNotFoundError: No module named 'uvicorn'"
    )
