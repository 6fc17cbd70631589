"""A genuine model over genuine HTTP. What it says is printed, never judged."""

import json
from dataclasses import replace

import pytest
from tests.llm.conftest import run
from tests.llm.local_model import local_model
from tests.requirement import requirement

from reasonbank.jobs.service import WorkerService
from reasonbank.llm.anthropic import AnthropicModel
from reasonbank.llm.http import Key
from reasonbank.llm.openai import OpenAIModel
from reasonbank.llm.port import ModelMeters, system, user
from reasonbank.model import Step
from reasonbank.opening import model_of
from reasonbank.settings import LLM, Embed, Settings
from reasonbank.testing import a_trace

TRACES = {
    "success": a_trace(outcome=None, task="make the upload survive a lost connection", trajectory=(
        Step(iteration=1, action="read", content="upload.py sends the file in one piece"),
        Step(iteration=2, action="think", content="ask the server how far it got, then resume"),
        Step(iteration=3, action="user", content="Works now, thank you!"))),
    "failure": a_trace(outcome=None, task="make the report page load faster", trajectory=(
        Step(iteration=1, action="think", content="cache the whole page"),
        Step(iteration=2, action="user", content="Now everybody sees my data. Undo this."),
        Step(iteration=3, action="think", content="I do not know how"))),
}  # fmt: skip
VERDICT = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 60},
        "verdict": {"type": "string", "enum": ["success", "failure"]},
    },
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}
SESSIONS = {
    "Ran the tests: 41 passed. Committed the fix.": "success",
    "Tried to install the driver. Error: permission denied. Gave up.": "failure",
    "The page now loads in 80 ms instead of 3 s, as was asked.": "success",
    "Deployed; the health check has failed ever since and nobody knows why.": "failure",
}


@pytest.fixture(scope="module")
def settings():
    with local_model() as url:
        yield Settings(
            llm=LLM(provider="openai-compatible", model="smollm2", base_url=url,
                    timeout_seconds=120, deadline_seconds=300, cache="memory")
        )  # fmt: skip


@pytest.mark.slow
def test_every_reply_of_a_real_model_is_valid_by_its_schema(settings):
    meters = ModelMeters()
    model = model_of(settings, meters=meters, environment={})
    right = 0

    async def story():
        nonlocal right
        for session, truth in SESSIONS.items():
            messages = [system("You judge whether a task succeeded."), user(session)]
            completion = await model.complete(messages, schema=VERDICT, max_tokens=300)
            assert completion.enforced
            assert set(completion.value) == {"reason", "verdict"}
            right += completion.value["verdict"] == truth
            print(f"\n{truth}: {json.dumps(completion.value)}")
        again = await model.complete(messages, schema=VERDICT, max_tokens=300)
        assert (again.cached, again.value) == (True, completion.value)
        await model.close()

    run(story())
    print(f"{right} of {len(SESSIONS)} verdicts right; {meters.to_json()}")
    assert (meters.calls, meters.repairs, meters.failures) == (len(SESSIONS), 0, 0)
    assert (meters.cache_hits, meters.cache_misses) == (1, len(SESSIONS))
    assert meters.input_tokens > 100
    assert meters.output_tokens > 20


@pytest.mark.slow
@requirement("DIS-3")
@requirement("DIS-4")
def test_sessions_are_judged_and_distilled_by_a_real_model(settings, open_bank):
    """The whole way: queue, worker, judge, distil, stored memories. No reply breaks its schema."""
    llm = replace(settings.llm, temperature=0)
    bank = open_bank(settings=replace(settings, llm=llm, embed=Embed(model="hashed")))
    meters = ModelMeters()
    jobs = {truth: bank.distil(trace) for truth, trace in TRACES.items()}
    model = model_of(bank.settings, meters=meters, environment={})
    assert run(WorkerService(bank.context, model, turns=False).run(until_empty=True)) == len(jobs)
    right = 0
    for truth, job in jobs.items():
        trace = bank.trace(job.subject)
        assert trace.metadata["judged"]["by"] == "judge"
        assert len(trace.memories_learned) <= 3
        right += trace.outcome == truth
        print(f"\n{truth}: {trace.outcome} ({trace.metadata['judged']['reason']})")
        for id in trace.memories_learned:
            print("  ", bank.get(id).title)
    print(f"{right} of {len(jobs)} verdicts right; {meters.to_json()}")
    assert (meters.calls, meters.repairs, meters.failures) == (2 * len(jobs), 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["chat", "responses", "messages"])
def test_a_real_model_answers_in_every_style(settings, style):
    """llama.cpp speaks all three, and was not written by us."""
    url = settings.llm.base_url
    if style == "messages":
        key = Key(variable="NONE", value="none")
        model = AnthropicModel(
            model="smollm2", base_url=url.removesuffix("/v1"), key=key, timeout=120
        )
    else:
        model = OpenAIModel(model="smollm2", base_url=url, style=style, timeout=120)

    async def story():
        completion = await model.complete([user("Say hello.")], temperature=0.7, max_tokens=16)
        await model.close()
        return completion

    completion = run(story())
    print(completion)
    assert completion.text
    assert 0 < completion.usage.output <= 16
    assert completion.usage.input > 0
