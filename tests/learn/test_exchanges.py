"""Questions and answers within sessions are kept as they come in, and nobody is given a draft."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.learn.test_distil import a_lesson
from tests.learn.test_growing_sessions import learn
from tests.learn.test_passive import CODE, EXPLANATION, QUESTION, STEPS
from tests.requirement import requirement
from tests.safety.secrets_made_up import SECRET

from reasonbank import Settings
from reasonbank.llm.scripted import Scripted
from reasonbank.model import Outcome, Source, State, Step, Trace, derived_id
from reasonbank.settings import Passive


def step(action, content, feedback=None):
    return Step(iteration=1, action=action, content=content, feedback=feedback)


def talk(*steps, **known):
    return Trace(
        id=derived_id("a talk"), task="a talk", trajectory=tuple(steps), outcome=Outcome.SUCCESS,
        **known,
    )  # fmt: skip


ASKED = talk(step("user", QUESTION), step("agent", CODE))


def knowledge(*numbers):
    return {"memories": [
        {"exchange": n, "title": f"ripgrep and dot files {n}", "description": "When rg skips files",
         "content": f"rg --hidden searches dot files; {n}.", "tags": ["rg"]} for n in numbers
    ]}  # fmt: skip


@requirement("PAS-1")
def test_without_a_model_an_exchange_becomes_a_draft_that_is_found_and_never_injected(bank):
    _, [memory] = learn(bank, ASKED)
    assert memory.source is Source.PASSIVE and memory.draft and "draft" in memory.tags
    assert (memory.title, memory.content) == (QUESTION, CODE)
    [hit] = bank.search(QUESTION)
    assert "DRAFT" in hit.format_for_prompt()
    for _ in range(3):
        bank.feedback(memory.id, helpful=True, session=str(_))
    injection = bank.inject(QUESTION, session="a task")
    assert (injection.prompt, injection.memories) == ("", ())
    assert bank.recommend(QUESTION).strategy is None
    bank.update(memory.id, tags=("rg",))
    assert bank.inject(QUESTION).memories == (memory.id,), "whoever checked it takes the mark off"


@requirement("PAS-1")
def test_with_a_model_the_knowledge_is_stored_and_not_the_answer(bank):
    model = Scripted([{"memories": []}, knowledge(1)])
    _, [memory] = learn(bank, ASKED, model)
    assert memory.source is Source.PASSIVE and not memory.draft
    assert memory.content == "rg --hidden searches dot files; 1."
    assert bank.inject(QUESTION).memories == (memory.id,)
    assert len(model.calls) == 2


@requirement("PAS-1")
def test_what_is_captured_is_thought_about_when_there_is_a_model(open_bank):
    model = Scripted([knowledge(1), {"memories": []}])
    bank = open_bank(model=model)
    captured = bank.capture(QUESTION, CODE)
    assert bank.get(captured.id).draft
    assert bank.work().done["extract"] == 1
    memory = bank.get(captured.id)
    assert not memory.draft and memory.title == "ripgrep and dot files 1"
    empty = bank.capture("What is the weather like in this office?", STEPS)
    bank.work()
    assert bank.get(empty.id).state is State.ARCHIVED, "the model found nothing in it"


@requirement("PAS-3")
def test_the_same_exchange_is_one_memory_whoever_hands_it_in(plain_bank):
    captured = plain_bank.capture(QUESTION, CODE)
    assert learn(plain_bank, ASKED)[1] == []
    learn(plain_bank, replace(ASKED, id=derived_id("another"), trajectory=ASKED.trajectory * 2))
    assert [memory.id for memory in plain_bank.memories()] == [captured.id]
    long = CODE + "\n" + "and so on, because it is long. " * 300
    assert plain_bank.capture(QUESTION, long).id
    assert learn(plain_bank, talk(step("user", QUESTION), step("agent", long)))[1] == []
    plain_bank.forget(captured.id)
    assert learn(plain_bank, replace(ASKED, id=derived_id("a third")))[1] == []


@requirement("PAS-1")
def test_a_fix_that_became_a_lesson_is_not_kept_as_an_exchange_too(plain_bank):
    fix = (
        step("user", "The tests fail, please mend them"),
        step("command", "pytest -q", "exit code 1\nE   ModuleNotFoundError: No module named 'x'"),
        step("command", "pip install x", "exit code 0"),
        step("command", "pytest -q", "exit code 0\n1 passed in 0.1s"),
    )
    answer = step("agent", EXPLANATION)
    learn(plain_bank, talk(*fix, answer, step("user", QUESTION), step("agent", CODE)))
    [lesson] = [memory for memory in plain_bank.memories() if not memory.draft]
    assert lesson.source is Source.DISTILLED
    assert [m.title for m in plain_bank.memories() if m.draft] == [QUESTION]


@requirement("PAS-1")
@pytest.mark.parametrize("cut", [4, 5])
def test_nor_is_it_when_the_session_is_handed_in_in_parts(plain_bank, cut):
    whole = (
        step("user", "The tests fail, why, and what can be done about it?"),
        step("agent", EXPLANATION),
        step("command", "pytest -q", "exit code 1\nE   ModuleNotFoundError: No module named 'x'"),
        step("command", "pip install x", "exit code 0"),
        step("command", "pytest -q", "exit code 0\n1 passed in 0.1s"),
        step("agent", STEPS),
    )
    for end in (2, cut, 6):
        learn(plain_bank, talk(*whole[:end]))
    [memory] = plain_bank.memories()
    assert memory.source is Source.DISTILLED


@requirement("PAS-1")
def test_what_tools_printed_is_no_answer_and_secrets_are_taken_out(plain_bank):
    _, learned = learn(plain_bank, talk(
        step("user", QUESTION), step("command", "cat NOTES.md", CODE),
        step("search", "notes", STEPS), step("agent", "See above."),
        step("user", "How is the key rotated here, step by step?"),
        step("agent", f"{STEPS}\n4. export KEY={SECRET}"),
    ))  # fmt: skip
    [memory] = learned
    assert "rotate the key" in memory.content and SECRET not in memory.content


@requirement("PAS-1")
def test_of_several_answers_to_a_question_one_is_kept_and_of_many_questions_each(plain_bank):
    many = [
        part
        for n in range(12)
        for part in (
            step("user", f"{QUESTION} Number {n}?"), step("agent", "I look at it."),
            step("agent", EXPLANATION), step("agent", f"{STEPS}\n4. Number {n}."),
        )
    ]  # fmt: skip
    _, learned = learn(plain_bank, talk(*many))
    assert len(learned) == 12 and all(m.content.startswith(STEPS) for m in learned)


@requirement("PAS-2")
def test_it_can_be_switched_off_for_sessions_too(open_bank):
    bank = open_bank(settings=Settings(passive=Passive(enabled=False)))
    assert learn(bank, ASKED)[1] == []


def test_an_agent_that_thinks_itself_leaves_drafts_of_what_it_did_not_mention(plain_bank):
    given = plain_bank.distil_prepare(ASKED)
    done = plain_bank.distil_submit(given.ticket, {"memories": []})
    assert plain_bank.get(done.learned[0]).draft
    other = replace(ASKED, id=derived_id("another"), trajectory=(
        step("user", f"{QUESTION} Today?"), step("agent", CODE),
    ))  # fmt: skip
    lesson = a_lesson(first_step=1, last_step=2, outcome="success")
    given = plain_bank.distil_prepare(other)
    done = plain_bank.distil_submit(given.ticket, {"memories": [lesson]})
    assert [plain_bank.get(id).draft for id in done.learned] == [False]


def test_drafts_are_not_merged_into_what_prompts_are_given(plain_bank):
    for question in (QUESTION, f"{QUESTION} Please!"):
        plain_bank.capture(question, CODE)
    assert plain_bank.consolidate(threshold=0.5).created == []
