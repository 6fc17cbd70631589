"""What goes wrong on the way to a model, over real HTTP."""

import asyncio
import gc
import logging
import re
import socket

import pytest
from tests.llm.conftest import FIRST_PAUSE, KEY, SECRET, reply_of, run
from tests.llm.servers import (
    CUT,
    HTML,
    NOT_JSON,
    STUCK,
    Answer,
    busy,
    chat,
    faulty,
    of,
    refused,
    responses,
)
from tests.requirement import requirement

from reasonbank import (
    InvalidReply,
    KeyRefused,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from reasonbank.llm.anthropic import AnthropicModel
from reasonbank.llm.layers import Deadline, Repaired
from reasonbank.llm.openai import OpenAIModel
from reasonbank.llm.port import user

HELLO = [user("hello")]
WORD = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


@requirement("LLM-3")
@pytest.mark.parametrize("fault", [busy(429), busy(500), busy(502), busy(503), busy(504), CUT,
                                   NOT_JSON, HTML], ids=str)  # fmt: skip
def test_a_passing_fault_is_retried_until_it_passes(serve, connect, fault):
    server = serve([fault, fault, fault, chat("here I am")])
    model = connect(server)
    assert reply_of(model, HELLO).text == "here I am"
    assert len(server.requests) == 4
    assert (model.meters.calls, model.meters.retries, model.meters.failures) == (1, 3, 0)


@requirement("LLM-3")
@pytest.mark.parametrize(
    ("fault", "cause"),
    [(busy(429), "429"), (busy(500), "500"), (busy(503), "503"), (CUT, "without sending complete"),
     (NOT_JSON, "not JSON"), (HTML, "text/html")],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_after_three_retries_the_error_names_the_cause(serve, connect, fault, cause):
    server = serve([fault])
    model = connect(server)
    with pytest.raises(ModelUnavailable, match=cause):
        reply_of(model, HELLO)
    assert len(server.requests) == 4
    assert (model.meters.calls, model.meters.retries, model.meters.failures) == (1, 3, 1)


@requirement("LLM-3")
def test_a_time_out_is_retried_and_named(serve, connect):
    server = serve([STUCK, chat("better late")])
    assert reply_of(connect(server, timeout=0.3), HELLO).text == "better late"
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.1 seconds"):
        reply_of(connect(serve([STUCK]), timeout=0.1), HELLO)


@requirement("LLM-3")
def test_nobody_at_home_is_named():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    model = OpenAIModel(model="m", base_url=url)
    with pytest.raises(ModelUnavailable, match=r"cannot be reached after 3 retries: .*[Cc]onnect"):
        reply_of(model, HELLO)
    assert model.meters.retries == 3


@requirement("LLM-3")
def test_pauses_between_retries_grow_and_differ(serve, connect, caplog):
    caplog.set_level(logging.INFO, "openai")
    server = serve([refused(503)])
    with pytest.raises(ModelUnavailable):
        reply_of(connect(server), HELLO)
    pauses = [float(p) for p in re.findall(r"Retrying request in ([\d.]+) seconds", caplog.text)]
    assert len(pauses) == 3
    for pause, doubled in zip(pauses, (1, 2, 4), strict=True):
        most = FIRST_PAUSE * doubled
        assert 0.75 * most <= pause <= most
    assert len({pause / doubled for pause, doubled in zip(pauses, (1, 2, 4), strict=True)}) == 3


@requirement("LLM-3")
def test_the_server_says_how_long_to_wait(serve, connect, caplog):
    caplog.set_level(logging.INFO, "openai")
    server = serve([refused(429, retry_after="0.25"), chat("thanks for waiting")])
    assert reply_of(connect(server), HELLO).text == "thanks for waiting"
    assert "Retrying request in 0.250000 seconds" in caplog.text


@requirement("LLM-3")
@pytest.mark.parametrize(
    ("status", "kind", "cause"),
    [
        (400, ModelRefused, "400: too many words"),
        (401, KeyRefused, "OPENROUTER_API_KEY is not accepted"),
        (402, ModelRefused, "no credit left for the key in OPENROUTER_API_KEY"),
        (403, KeyRefused, "OPENROUTER_API_KEY may not"),
        (404, ModelRefused, "is the model's name right"),
    ],
)
def test_a_refusal_is_not_retried(serve, connect, status, kind, cause):
    server = serve([refused(status, "too many words")])
    model = connect(server)
    with pytest.raises(kind, match=cause) as caught:
        reply_of(model, HELLO)
    assert caught.value.answered == status
    assert len(server.requests) == 1
    assert model.meters.retries == 0


@pytest.mark.parametrize(
    "fault",
    [refused(400, "too many words"), refused(401), refused(402), refused(403), refused(404),
     busy(409), busy(429), busy(529), Answer(307, b""), CUT, STUCK, NOT_JSON],
    ids=str,
)  # fmt: skip
def test_a_fault_is_told_in_the_same_words_whichever_sdk_met_it(serve, fault):
    def told(kind):
        server = serve([fault])
        model = kind(model="m", base_url=server.url, key=KEY, timeout=0.2)
        with pytest.raises(ModelError) as caught:
            reply_of(model, HELLO)
        error = caught.value
        return type(error), str(error).replace(server.url, "URL"), vars(error), len(server.requests)

    assert told(OpenAIModel) == told(AnthropicModel)


@requirement("LLM-3")
def test_a_deadline_bounds_the_whole_call_with_all_its_retries(serve, connect):
    server = serve([chat("awake"), refused(503, retry_after="60")])
    reply_of(connect(server), HELLO)  # The SDK has loaded what it needs.
    model = Deadline(connect(server), seconds=2.0)
    with pytest.raises(ModelUnavailable, match=r"within 2 seconds .*last seen: status 503"):
        reply_of(model, HELLO)
    assert len(server.requests) == 2


def test_an_error_inside_a_good_answer_counts_as_the_server_being_busy(serve, connect):
    server = serve([of({"error": {"code": 502, "message": "upstream"}}), chat("through")])
    assert reply_of(connect(server), HELLO).text == "through"


def test_an_answer_of_another_shape_says_what_to_check(serve, connect):
    server = serve([of({"hello": "world"})])
    with pytest.raises(InvalidReply, match=r"llm\.base_url"):
        reply_of(connect(server), HELLO)
    with pytest.raises(InvalidReply, match=r"llm\.style"):
        reply_of(connect(serve([chat("x")]), style="responses"), HELLO)


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere(serve, connect):
    thief = serve([chat("give me more")])
    target = f"{thief.url}/chat/completions"
    for status in (301, 302, 303, 307, 308):
        server = serve([Answer(status, b"", {"location": target})])
        with pytest.raises(ModelRefused, match=r"redirects to http://127\.0\.0\.1:\d+, which"):
            reply_of(connect(server), HELLO)
        assert len(server.requests) == 1
    assert thief.requests == []


def test_the_environment_changes_neither_the_address_nor_what_is_sent(serve, connect, monkeypatch):
    elsewhere = serve([chat("wrong house")])
    monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-secret")
    server = serve([chat("right house")])
    assert reply_of(connect(server, key=None), HELLO).text == "right house"
    assert elsewhere.requests == []
    assert not {"openai-organization", "openai-project"} & set(server.requests[0].headers)
    assert "sk-of-somebody-else" not in str(server.requests[0].headers)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_one_model_serves_one_event_loop_after_another_without_being_closed(serve, connect):
    model = connect(serve([chat("one"), chat("two")]))
    assert [run(model.complete(HELLO)).text, run(model.complete(HELLO)).text] == ["one", "two"]
    del model
    gc.collect()  # So that what was left open is noticed here, not in the test after this one.


def test_a_cancelled_call_leaves_the_others_alone(serve, connect):
    def answer(request):
        return STUCK if request.body["messages"][0]["content"] == "stuck" else chat("done")

    model = connect(serve(answer))

    async def story():
        stuck = asyncio.create_task(model.complete([user("stuck")]))
        await asyncio.sleep(0)
        other = await model.complete(HELLO)
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        await model.close()
        return other

    assert run(story()).text == "done"


@requirement("LLM-3")
def test_with_a_fifth_of_all_requests_failing_nearly_every_call_succeeds(serve, connect, caplog):
    """At least 99.5 % of 1,000 calls, and no log or error tells the key."""
    caplog.set_level(logging.DEBUG)

    def good(request):
        who = request.body["messages"][-1]["content"]
        # Some models forget what they were asked for, which one re-ask repairs.
        return chat("no idea" if who.endswith("7") else f'{{"word": "{who[:40]}"}}')

    server = serve(faulty(seed=4, share=0.2, good=good))
    adapter = connect(server, timeout=5.0)
    model = Repaired(adapter, meters=adapter.meters)

    async def one(number, turns):
        async with turns:
            try:
                completion = await model.complete([user(f"call {number}")], schema=WORD)
            except ModelError as error:
                return error
            return completion.value["word"]

    async def everything():
        turns = asyncio.Semaphore(32)
        try:
            return await asyncio.gather(*(one(number, turns) for number in range(1000)))
        finally:
            await model.close()

    results = run(everything())
    failed = [result for result in results if isinstance(result, ModelError)]
    print(f"\n{len(failed)} of 1,000 failed, {adapter.meters.to_json()}")
    assert len(failed) <= 5
    assert adapter.meters.retries > 200
    assert adapter.meters.repairs >= 90
    assert all(f"call {i}" == r for i, r in enumerate(results)
               if isinstance(r, str) and i % 10 != 7)  # fmt: skip
    assert SECRET not in caplog.text + "".join(map(repr, failed))
    assert SECRET in server.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    "answer",
    [refused(400, f"bad key {SECRET}"), refused(401, f"Incorrect API key provided: {SECRET}"),
     refused(402, SECRET), refused(404, SECRET), busy(429), of({"error": {"message": SECRET}}),
     of({"detail": SECRET}, 422), CUT, HTML],
    ids=str,
)  # fmt: skip
def test_no_error_and_no_log_tells_the_key(serve, connect, caplog, answer):
    caplog.set_level(logging.DEBUG)
    model = connect(serve([answer]))
    with pytest.raises(ModelError) as caught:
        reply_of(model, HELLO)
    assert SECRET not in caplog.text
    assert SECRET not in repr(caught.value)
    assert SECRET not in repr(KEY)


def test_nothing_of_the_prompt_is_logged_without_being_asked(serve, connect, caplog):
    caplog.set_level(logging.INFO)
    reply_of(connect(serve([busy(500), responses("hi")]), style="responses"), [user("SECRET")])
    assert "SECRET" not in caplog.text
