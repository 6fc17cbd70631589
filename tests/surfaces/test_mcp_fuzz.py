"""Thousands of calls, right and wrong, of every tool: no crash, words, and the shape promised."""

import json
import math
import random
import re
import string
from collections import Counter

import jsonschema
import pytest
from pydantic import TypeAdapter
from tests.agent.player import Player
from tests.requirement import requirement
from tests.surfaces.mcp_agent import NOBODY, connected
from tests.surfaces.mcp_http import calling

from reasonbank.surfaces.mcp.memory_tools import TOOLS
from reasonbank.surfaces.mcp.server import make_server
from reasonbank.surfaces.shapes import returned
from reasonbank.testing.builders import a_memory, a_warning

pytestmark = pytest.mark.anyio

CALLS = 5_040
HOSTILE = [
    None, True, 0, -1, 10**30, 1.5, math.nan, math.inf, "", " ", "\0", "a\0b", "\ud800", "/\udfff",
    "x" * 70_000, "\u202e\u0301\U0001f4a9", "null", "[]", "{}", "[" * 5_000, "../../etc/passwd",
    "'; DROP TABLE memories; --", "<memory>", [], {}, [[]], [None], ["x"] * 1_000, {"a": {"b": []}},
    {"\ud800": "\udfff"}, "~root", "//", "0" * 16, NOBODY, NOBODY.upper(), "%s%n", "${HOME}",
]  # fmt: skip
ADVICE = re.compile(
    r"ask for a new one|hand it in again|"
    r"takes: |confirm=true|search` shows|list` shows|action=list shows|at most|at least|"
    r"must not be blank|must contain only strings|"
    r"is missing|must be|has a NUL|not valid|is not an? |nothing to change|too deep|"
    r"forgotten for good|another workspace is called|not a UUID|leave it out|remove it|"
    r"is not a verifier|you may rate it|give the name"
)


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


class Sender:
    """Makes arguments from a tool's schema, and then, mostly, spoils them."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.ids = [NOBODY]

    def arguments(self, schema):
        chance, sent = self.chance, {}
        for name, part in schema["properties"].items():
            if name in schema.get("required", ()) or chance.random() < 0.4:
                sent[name] = self.value(name, part, schema)
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            spoil = chance.choice((self.replace, self.drop, self.add, self.nest))
            spoil(sent)
        return sent

    def value(self, name, part, schema):
        chance = self.chance
        if "$ref" in part:
            return self.value(name, schema["$defs"][part["$ref"].split("/")[-1]], schema)
        if name == "memory_id":
            return chance.choice(self.ids[-20:])
        if name in ("workspace", "target"):
            return chance.choice(("/some/project", "/other", "~", "engine", "0" * 16))
        if "enum" in part:
            return chance.choice(part["enum"])
        match part["type"]:
            case "boolean":
                return chance.random() < 0.5
            case "integer":
                return chance.randint(part["minimum"], part.get("maximum", 9_999))
            case "number":
                return chance.uniform(part["minimum"], part["maximum"])
            case "array":
                return [self.value("", part["items"], schema) for _ in range(chance.randint(0, 3))]
            case "object":
                fields = part.get("properties", {}).items()
                return {key: self.value(key, inner, schema) for key, inner in fields}
        most = min(part.get("maxLength", 30), chance.choice((8, 30, 200)))
        letters = chance.choices(string.printable + "äß漢 ", k=chance.randint(1, most))
        return chance.choice(("uploads ", "retry ", "")) + "".join(letters)[: most - 8] or "x"

    def replace(self, sent):
        if sent:
            sent[self.chance.choice(list(sent))] = self.chance.choice(HOSTILE)

    def drop(self, sent):
        if sent:
            del sent[self.chance.choice(list(sent))]

    def add(self, sent):
        names = ["unknown", "", "__class__", "bank", "call", "self", "\ud800", "x" * 5_000]
        sent[self.chance.choice(names)] = self.chance.choice(HOSTILE)

    def nest(self, sent):
        if sent:
            sent[self.chance.choice(list(sent))] = deep(self.chance.choice((20, 90)))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@requirement("MCP-4")
@requirement("SEC-3")
async def test_thousands_of_calls_right_and_wrong_are_answered_in_words_and_shape(plain_bank):
    sender = Sender(seed=20_260_728)
    sender.ids += [plain_bank.record(build()).id for build in (a_memory, a_warning) * 5]
    outcomes = Counter()
    async with connected(plain_bank) as agent:
        tools = await agent.tools()
    shapes = {
        name: jsonschema.Draft202012Validator(TypeAdapter(returned(spec.function)).json_schema())
        for name, spec in TOOLS.items()
    }
    model = Player(lambda call: "solved", scores={"solved": 0.9})
    async with calling(make_server(plain_bank, model=model)) as call:
        for number in range(CALLS):
            name = list(tools)[number % len(tools)]
            arguments = sender.arguments(tools[name].input_schema)
            result = await call(name, arguments)
            sent = ascii((name, arguments))[:600]
            outcomes[name, result["isError"]] += 1
            if result["isError"]:
                words = result["content"][0]["text"]
                assert "unexpected" not in words, sent
                assert len(words) < 2_000, sent
                assert ADVICE.search(words), f"{words}\n{sent}"
            else:
                answer = json.loads(result["content"][0]["text"])
                assert result.get("structuredContent") in (None, answer)
                shapes[name].validate(answer)
                if name == "memory_record":
                    sender.ids.append(answer["id"])
    assert plain_bank.statistics().memories > 20
    for name in tools:
        assert outcomes[name, True] > 10, (name, outcomes)
        # Nobody guesses a ticket.
        assert outcomes[name, False] > (-1 if name == "distil_submit" else 3), (name, outcomes)
    for id in sender.ids[-20:]:
        if id in {memory.id for memory in plain_bank.memories(limit=10_000)}:
            assert plain_bank.get(id).format_for_prompt()
