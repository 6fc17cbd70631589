"""Structured replies: found in what a model says, held to the schema, asked for again once."""

import json

import pytest
from tests.llm.conftest import run
from tests.requirement import requirement

from reasonbank import InvalidReply, ModelUnavailable
from reasonbank.llm.layers import Repaired
from reasonbank.llm.port import ModelMeters, Usage, user
from reasonbank.llm.reply import is_strict, valid
from reasonbank.testing import Scripted

SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["success", "failure"]},
        "lessons": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
    },
    "required": ["verdict"],
    "additionalProperties": False,
}
GOOD = {"verdict": "success", "lessons": ["one"]}
ASKED = [user("how did it go?")]


@requirement("LLM-6")
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"\n  {json.dumps(GOOD, indent=2)}\n",
        f"```json\n{json.dumps(GOOD)}\n```",
        f"Here is what you asked for:\n{json.dumps(GOOD)}\nAnything else?",
    ],
)
def test_the_json_in_a_reply_is_found(text):
    assert valid(text, SCHEMA) == GOOD


@requirement("LLM-6")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("it went well", "is not JSON"),
        ('{"verdict": "succ', "is not JSON"),
        ('{"verdict": NaN}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"verdict": ' + "1" * 5000 + "}", "is not JSON"),
        ("[]", r"at \$: \[\] is not of type 'object'"),
        ("{}", r"at \$: 'verdict' is a required property"),
        ('{"verdict": "unsuccessful"}', r"at \$\.verdict: 'unsuccessful' is not one of"),
        ('{"verdict": "success", "lessons": [1]}', r"at \$\.lessons\[0\]: 1 is not of type"),
        ('{"verdict": "success", "lessons": ["a", "b", "c", "d"]}', "too long"),
        ('{"verdict": "success", "mood": "good"}', "'mood' was unexpected"),
        ('{"verdict": "' + "x" * 1_000_000 + '"}', "has 1000015 characters"),
        ('{"verdict": "' + "x" * 9_000 + '"}', r"at \$\.verdict: …x+.*is not one of"),
    ],
    ids=range(15),
)
def test_a_reply_that_breaks_the_schema_is_refused_and_says_where(text, problem):
    with pytest.raises(InvalidReply, match=problem) as refused:
        valid(text, SCHEMA)
    assert len(str(refused.value)) < 500


@requirement("LLM-6")
def test_a_broken_reply_is_asked_for_once_more_with_its_error():
    model = Scripted(["I think it went well", GOOD])
    meters = ModelMeters()
    completion = run(Repaired(model, meters=meters).complete(ASKED, schema=SCHEMA))
    assert completion.value == GOOD
    first, again = model.calls
    assert [m.role for m in again.messages] == ["system", "user", "assistant", "user"]
    assert '"maxItems": 3' in again.messages[0].content
    assert again.messages[2].content == "I think it went well"
    assert "is not JSON" in again.messages[3].content
    assert (again.schema, again.temperature) == (first.schema, first.temperature)
    assert meters.repairs == 1
    # Both replies were paid for.
    assert completion.usage.output == model.meters.output_tokens


@requirement("LLM-6")
def test_a_second_broken_reply_is_an_error_that_says_what_was_wrong():
    model = Scripted([{"verdict": "so-so"}, {"verdict": "unsure"}, GOOD])
    with pytest.raises(InvalidReply, match=r"'unsure' is not one of .*asked again") as refused:
        run(Repaired(model, meters=ModelMeters()).complete(ASKED, schema=SCHEMA))
    assert len(model.calls) == 2
    assert refused.value.reply == '{"verdict": "unsure"}'
    assert isinstance(refused.value.usage, Usage)


def test_what_is_not_the_models_fault_is_not_asked_for_again():
    model = Scripted([ModelUnavailable("busy"), GOOD])
    with pytest.raises(ModelUnavailable):
        run(Repaired(model, meters=ModelMeters()).complete(ASKED, schema=SCHEMA))
    model = Scripted([InvalidReply("declined")])
    with pytest.raises(InvalidReply, match="declined"):
        run(Repaired(model, meters=ModelMeters()).complete(ASKED))
    assert len(model.calls) == 1


def test_a_reply_without_a_schema_is_taken_as_it_is():
    completion = run(Scripted(["{not json"]).complete(ASKED))
    assert (completion.text, completion.value) == ("{not json", None)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, False),
        (SCHEMA | {"required": ["verdict", "lessons"]}, True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object"}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
    ],
)
def test_strict_is_a_schema_whose_objects_are_closed_and_complete(schema, strict):
    assert is_strict(schema) is strict
