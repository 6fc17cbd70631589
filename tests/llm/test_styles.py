"""What is sent to each kind of server, and what is read from its answer."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.llm.conftest import KEY, SECRET, reply_of
from tests.llm.servers import chat, message, of, refused, responses
from tests.requirement import requirement

from reasonbank import InvalidReply, ModelError, ModelRefused
from reasonbank.llm.anthropic import AnthropicModel
from reasonbank.llm.openai import OpenAIModel
from reasonbank.llm.port import Usage, assistant, system, user

TALK = [system("be brief"), user("hello"), assistant("hi"), user("how are you?")]
OPEN = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
STRICT = OPEN | {"additionalProperties": False}


@requirement("LLM-1")
@pytest.mark.parametrize("effort", ["low", "medium", "high"])
def test_responses_style_sends_the_whole_context_and_the_effort(serve, connect, effort):
    server = serve([responses("fine")])
    completion = reply_of(
        connect(server, style="responses"),
        TALK,
        temperature=0.5,
        max_tokens=77,
        effort=effort,
        schema=None,
    )
    sent = server.requests[0]
    assert sent.path == "/v1/responses"
    assert sent.headers["authorization"] == f"Bearer {SECRET}"
    assert sent.body == {
        "model": "small",
        "input": [{"role": m.role, "content": m.content} for m in TALK],
        "max_output_tokens": 77,
        "temperature": 0.5,
        "reasoning": {"effort": effort},
        "store": False,
    }
    assert (completion.text, completion.model) == ("fine", "served-model")


@requirement("LLM-1")
def test_responses_style_counts_reasoning_apart_from_output(serve, connect):
    model = connect(serve([responses("fine")]), style="responses")
    completion = reply_of(model, TALK)
    assert completion.usage == Usage(input=20, output=12, reasoning=18, cached=5, cost=0.0025)
    meters = model.meters.to_json()
    assert (meters["input_tokens"], meters["output_tokens"]) == (20, 12)
    assert (meters["reasoning_tokens"], meters["cost"]) == (18, 0.0025)


@requirement("LLM-1")
def test_chat_style_sends_what_every_compatible_server_knows(serve, connect):
    server = serve([chat("fine")])
    completion = reply_of(connect(server), TALK, max_tokens=77, effort="high")
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.body == {
        "model": "small",
        "messages": [{"role": m.role, "content": m.content} for m in TALK],
        "max_tokens": 77,
        "temperature": 0.0,
        "reasoning_effort": "high",
    }
    assert completion.usage == Usage(input=20, output=10)


@requirement("LLM-1")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17,
          "completion_tokens_details": {"reasoning_tokens": 6},
          "prompt_tokens_details": {"cached_tokens": 4}, "cost": 0.5},
         Usage(input=9, output=2, reasoning=6, cached=4, cost=0.5)),
        # One provider counts reasoning beside the output, not in it; the total shows it.
        ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 17,
          "completion_tokens_details": {"reasoning_tokens": 6}},
         Usage(input=9, output=2, reasoning=6)),
        ({"prompt_tokens": "many", "completion_tokens": None}, Usage()),
        (None, Usage()),
    ],
)  # fmt: skip
def test_chat_style_counts_reasoning_apart_from_output(serve, connect, usage, expected):
    model = connect(serve([chat("fine", usage=usage)]))
    assert reply_of(model, TALK).usage == expected
    assert model.meters.unreported == (expected == Usage())


@requirement("LLM-1")
def test_a_message_of_anthropics_carries_system_effort_and_schema(serve):
    server = serve([message('{"word": "fine"}')])
    url = server.url.removesuffix("/v1")
    model = AnthropicModel(model="claude", base_url=url, key=KEY, timeout=5.0)
    completion = reply_of(model, TALK, schema=OPEN, effort="low", max_tokens=77)
    sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert SECRET in (sent.headers.get("x-api-key", "") + sent.headers.get("authorization", ""))
    assert sent.body == {
        "model": "claude",
        "max_tokens": 77,
        "system": "be brief",
        "messages": [{"role": m.role, "content": m.content} for m in TALK[1:]],
        "temperature": 0.0,
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": OPEN}},
    }
    assert completion.value == {"word": "fine"}
    assert completion.usage == Usage(input=20, output=12, reasoning=18, cached=5)


def test_anthropics_refusals_and_cut_replies_are_told(serve):
    def ask(answer, **options):
        url = serve([answer]).url.removesuffix("/v1")
        return reply_of(AnthropicModel(model="c", base_url=url, key=KEY), TALK, **options)

    with pytest.raises(InvalidReply, match="declined"):
        ask(message("", stop_reason="refusal", content=[]))
    with pytest.raises(InvalidReply, match="Anthropic message"):
        ask(of({"content": "x"}))
    with pytest.raises(ModelRefused, match="OPENROUTER_API_KEY"):
        ask(refused(401))
    assert ask(message("half", stop_reason="max_tokens")).cut


@pytest.mark.parametrize(("schema", "strict"), [(OPEN, False), (STRICT, True)])
def test_a_schema_is_enforced_by_the_server_and_strictly_where_it_can_be(
    serve, connect, schema, strict
):
    form = {"name": "reply", "schema": schema, "strict": strict}
    server = serve([chat('{"word": "x"}')])
    assert reply_of(connect(server), TALK, schema=schema).enforced
    expected = {"type": "json_schema", "json_schema": form}
    assert server.requests[0].body["response_format"] == expected
    server = serve([responses('{"word": "x"}')])
    assert reply_of(connect(server, style="responses"), TALK, schema=schema).enforced
    assert server.requests[0].body["text"] == {"format": {"type": "json_schema", **form}}


@requirement("LLM-6")
def test_a_server_that_takes_no_schema_is_asked_for_it_in_words_from_then_on(serve, connect):
    server = serve([refused(400, "'response_format' of type json_schema is not supported"),
                    chat('Sure!\n```json\n{"word": "x"}\n```'), chat('{"word": "y"}')])  # fmt: skip
    model = connect(server)
    for word in "xy":
        completion = reply_of(model, TALK, schema=OPEN)
        assert (completion.value, completion.enforced) == ({"word": word}, False)
    assert len(server.requests) == 3
    for request in server.requests[1:]:
        assert "response_format" not in request.body
        first = request.body["messages"][0]
        assert first["role"] == "system"
        assert first["content"].startswith("be brief")
        assert '"required": ["word"]' in first["content"]


@pytest.mark.parametrize(
    ("said", "gone"),
    [("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
     ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort")],
)  # fmt: skip
def test_what_a_model_does_not_take_is_left_out_with_a_warning(serve, connect, caplog, said, gone):
    server = serve([refused(400, said), chat("fine")])
    model = connect(server)
    assert reply_of(model, TALK, effort="low").text == "fine"
    assert gone in server.requests[0].body
    assert gone not in server.requests[1].body
    assert "is left out" in caplog.text
    reply_of(model, TALK, effort="low")
    assert len(server.requests) == 3


def test_a_refusal_that_names_no_option_stays_a_refusal(serve, connect):
    server = serve([refused(400, "the prompt is too long")])
    model = connect(server, model="reasoning-temperature-schema")
    with pytest.raises(ModelRefused, match="too long"):
        reply_of(model, TALK, schema=OPEN, effort="low")
    assert len(server.requests) == 1


def test_openai_calls_its_limit_by_the_new_name(serve, connect):
    server = serve([chat("fine")])
    reply_of(connect(server, output_limit="max_completion_tokens"), TALK, max_tokens=5)
    assert server.requests[0].body["max_completion_tokens"] == 5
    assert "max_tokens" not in server.requests[0].body


def test_a_reply_that_was_cut_or_declined_says_so(serve, connect):
    choice = {"index": 0, "finish_reason": "length", "message": {"content": "half of"}}
    assert reply_of(connect(serve([chat("", choices=[choice])])), TALK).cut
    half = responses("half of", status="incomplete",
                     incomplete_details={"reason": "max_output_tokens"})  # fmt: skip
    assert reply_of(connect(serve([half]), style="responses"), TALK).cut
    choice = {"finish_reason": "stop", "message": {"content": None, "refusal": "I will not"}}
    with pytest.raises(InvalidReply, match="declined to answer: I will not"):
        reply_of(connect(serve([chat("", choices=[choice])])), TALK)
    part = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not"}]}
    with pytest.raises(InvalidReply, match="declined to answer: I will not"):
        reply_of(connect(serve([responses("", output=[part])]), style="responses"), TALK)


def test_half_characters_are_sent_whole(serve, connect):
    server = serve([chat("fine")])
    reply_of(connect(server), [user("half \ud83d of it")])
    assert server.requests[0].body["messages"][0]["content"] == "half ? of it"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "message", "content", "text", "type", "output", "usage",
                         "prompt_tokens", "output_tokens", "completion_tokens_details", "cost",
                         "reasoning_tokens", "error", "model", "finish_reason", "refusal",
                         "incomplete_details", "stop_reason"]),
        inner, max_size=4),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(JSON | st.just({"choices": [{"message": {"content": {}}}], "usage": {"cost": 10**400}}))
def test_an_answer_of_any_shape_is_a_completion_or_an_error_of_ours(data):
    models = [
        OpenAIModel(model="m", base_url="http://localhost"),
        OpenAIModel(model="m", base_url="http://localhost", style="responses"),
        AnthropicModel(model="m", base_url="http://localhost", key=KEY),
    ]
    for model in models:
        try:
            completion = model._read(data, enforced=False)
        except ModelError:
            continue
        assert isinstance(completion.text, str)
        assert completion.usage.cost is None or completion.usage.cost >= 0
