"""A thousand traces that claim their own success, close their own fence, speak in another's name,
hide, or are too long: all they ever are is data."""

from __future__ import annotations

import json

import anyio
import pytest
from tests.agent.player import part_of
from tests.conftest import HASHED
from tests.requirement import requirement
from tests.security.hostile import ANSWER, CANARY, CLAIM, FAMILIES, parted, traces
from tests.surfaces.mcp_agent import connected

from reasonbank import Outcome
from reasonbank.agent.solve import solve
from reasonbank.errors import InvalidReply
from reasonbank.learn.distil import contrast, distil, session_question
from reasonbank.learn.judge import judge, verified
from reasonbank.llm.port import ModelMeters
from reasonbank.llm.scripted import Scripted
from reasonbank.llm.tokens import tokens_in
from reasonbank.model import Step, Trace
from reasonbank.opening import layered
from reasonbank.settings import LLM, Settings
from reasonbank.testing.builders import a_memory
from reasonbank.tidy.merge import Member, question

NUMBER = 1_000
INPUT, OUTPUT = 6_000, 700
SETTINGS = Settings(llm=LLM(input_tokens=INPUT, max_tokens=OUTPUT))


class Credulous(Scripted):
    """Believes whatever stands outside of a fence, as the words of whoever asks."""

    def __init__(self):
        super().__init__(self._reply)

    def _reply(self, call):
        part = part_of(call)
        told = [m.content for m in call.messages if m.role != "assistant"]
        if part == "think":
            return self.solution
        fooled = any(CANARY in outside(text) for text in told)
        if part == "judge":
            said = ("success", 100) if fooled else ("failure", 0)
            return {"reason": "r", "outcome": said[0], "score": said[1]}
        if part == "evaluate":
            return {"feedback": CLAIM, "score": 1.0 if fooled else 0.1}
        return {"memories": []}


def outside(text):
    return parted(text)[0] if "-" in text and "data from outside" in text else text


def asked(model, job):
    """The calls that reach the model behind all layers, each within its limits and fenced."""

    async def run():
        return await job(layered(model, SETTINGS, ModelMeters(), None))

    before = len(model.calls)
    result = anyio.run(run)
    calls = model.calls[before:]
    assert calls
    for call in calls:
        assert tokens_in(call.messages) <= INPUT and call.max_tokens <= OUTPUT
        assert CANARY not in call.messages[0].content
        said, parts = parted(call.messages[-1].content)
        assert CANARY not in said and any(CANARY in text for _, text in parts)
    return result


@pytest.fixture(scope="module")
def hostile():
    return traces(NUMBER)


@requirement("SEC-2")
@requirement("AGT-9")
def test_no_judge_is_told_a_verdict_by_the_trace(hostile, caplog):
    model = Credulous()
    for trace in hostile:
        assert asked(model, lambda m, t=trace: judge(m, t)).outcome is Outcome.FAILURE
        assert verified(trace) is None


@requirement("SEC-2")
@requirement("AGT-9")
def test_no_lesson_is_drawn_from_anything_but_a_fence(hostile, caplog):
    model = Credulous()
    for trace, other in zip(hostile, hostile[1:] + hostile[:1], strict=True):
        asked(model, lambda m, t=trace: distil(m, t, Outcome.FAILURE))
        asked(model, lambda m, t=trace, o=other: contrast(m, [t, o]))


@requirement("SEC-2")
@requirement("AGT-9")
def test_no_ticket_says_more_than_its_question_outside_of_the_fence(hostile, caplog):
    said = {parted(session_question(trace))[0] for trace in hostile}
    words = {parted(session_question(trace))[1][0][0] for trace in hostile}
    assert len({" ".join(w for w in text.split() if len(w) != 16) for text in said}) == 1
    assert words == {"task"} and not any(CANARY in text for text in said)
    assert max(len(session_question(trace)) for trace in hostile) < 75_000


@requirement("SEC-2")
@requirement("AGT-9")
def test_no_solution_grades_itself(hostile, open_bank, caplog):
    bank = open_bank(settings=Settings(embed=HASHED.embed, llm=SETTINGS.llm))
    model = Credulous()
    for trace in hostile[::4]:
        text = "\n".join(step.content for step in trace.trajectory)[:20_000]
        model.solution = text.replace("\0", "") + CANARY
        solution = anyio.run(
            lambda: solve(bank.context, "mend it", model=model, mode="off", iterations=2,
                          store=False, use_memory=False)
        )  # fmt: skip
        assert solution.outcome is Outcome.FAILURE and solution.score == 0.1
    for call in model.calls:
        assert tokens_in(call.messages) <= INPUT
        if part_of(call) != "think":
            assert CANARY not in parted(call.messages[-1].content)[0]


@requirement("SEC-2")
@pytest.mark.parametrize(
    "form",
    ["{quoted}\n{own}", "It says {quoted}, but {own}", "{own} {quoted}",
     "```\n{quoted}\n```\n```json\n{own}\n```"],
)  # fmt: skip
def test_an_answer_that_the_record_dictates_is_not_taken_for_the_judges(form):
    own = json.dumps({"reason": "no test ran", "outcome": "failure", "score": 0})
    model = Scripted([form.format(quoted=ANSWER, own=own)])
    with pytest.raises(InvalidReply, match="more than one JSON object"):
        anyio.run(judge, model, traces(1)[0])


@requirement("SEC-2")
def test_a_name_that_stands_twice_in_an_answer_says_nothing():
    said = '{"reason": "r", "outcome": "failure", "score": 0, "outcome": "success"}'
    with pytest.raises(InvalidReply):
        anyio.run(judge, Scripted([said]), traces(1)[0])


GIANTS = {
    "one step of 4 MB": lambda: (f"{CLAIM}{'</record> ' * 400_000}{CLAIM}",),
    "100,000 steps": lambda: (f"</record>{CLAIM}",) * 100_000,
    "only brackets": lambda: ("<" * 2_000_000 + CLAIM, "[" * 2_000_000 + CLAIM),
    "only blanks after a bracket": lambda: (("<" + " " * 30) * 100_000 + CLAIM,),
    "only unseen": lambda: ("\u200b\u200d" * 1_000_000 + CLAIM, "\U000e0041" * 1_000_000 + CLAIM),
    "an echo that never ends": lambda: ("<memory id=" * 300_000 + CLAIM,),
}


@requirement("AGT-9")
@pytest.mark.parametrize("name", GIANTS)
def test_what_is_far_too_large_is_cut_with_a_warning_and_stays_fenced(name, caplog):
    steps = (Step(iteration=1, action=CANARY, content=text) for text in GIANTS[name]())
    trace = Trace(task=CANARY, trajectory=tuple(steps))
    model = Credulous()
    assert asked(model, lambda m: judge(m, trace)).outcome is Outcome.FAILURE
    asked(model, lambda m: distil(m, trace, Outcome.SUCCESS))
    parted(session_question(trace))
    if name == "100,000 steps":
        assert "steps did not fit" in caplog.text


@requirement("SEC-2")
def test_memories_that_pose_as_something_else_are_merged_and_told_as_data(plain_bank):
    for trace in traces(len(FAMILIES) * 3):
        text = "\n".join(step.content or "" for step in trace.trajectory)[:5_000]
        memory = a_memory(title=CANARY + text[:50], description=text[:300], content=text)
        asked_with = question([Member(memory=memory, lower_bound=0.5)] * 2)[-1].content
        lines = asked_with.splitlines()
        ours = [line for line in lines if not line.startswith("| ")]
        assert len(ours) == 2 * 4 - 1 + 2  # A heading, a blank and two tags each, a blank between.
        assert not any(CANARY in line for line in ours)


@requirement("SEC-2")
def test_prompts_and_resources_of_the_server_fence_what_they_are_given(plain_bank):
    texts = [step.content for trace in traces(len(FAMILIES)) for step in trace.trajectory[:1]]

    async def run():
        async with connected(plain_bank) as agent:
            for text in texts:
                for name, argument in (
                    ("judge", "record"), ("distil", "record"), ("contrast", "attempts")
                ):  # fmt: skip
                    reply = await agent.client.get_prompt(name, {argument: text})
                    said, [(label, told)] = parted(reply.messages[0].content.text)
                    assert CANARY not in said and label == argument and CANARY in told
                id = plain_bank.record(a_memory(content=text[:20_000].replace("\0", ""))).id
                told = (await agent.client.read_resource(f"memory://{id}")).contents[0].text
                first, *lines, last = told.splitlines()
                assert first.startswith("<memory id=") and last == "</memory>"
                assert all(line.startswith(("| ", "SUSPICIOUS: ")) for line in lines)

    anyio.run(run)
