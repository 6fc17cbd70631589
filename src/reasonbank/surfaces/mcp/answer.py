"""What a tool's answer is on the wire: each memory once, and the price that it says.

Agents differ in what of an answer they show their model: Claude Code and Codex only the
structured content, Gemini CLI and opencode only the text, Qwen Code and Copilot CLI both, unless
they are the same JSON. So an answer with the text of memories is one block of JSON text and
nothing else: that is the one shape in which every model reads every memory exactly once. What
holds no memory is sent both ways, as the same JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, get_args, get_type_hints

from mcp.types import CallToolResult, TextContent

# pydantic refuses `typing.TypedDict` before Python 3.12.
from typing_extensions import TypedDict, is_typeddict

from reasonbank import model
from reasonbank.answers import Recommendation
from reasonbank.fence import escaped
from reasonbank.model import JSON, Hit, Memory, Reply, Standing
from reasonbank.search.text import tokens_in
from reasonbank.surfaces import shapes

SCHEMA_CHARACTERS = 150
"""A longer output schema costs a model more, in every session, than it tells a program."""
ENVELOPE = tokens_in('{"memories":[],"total_found":100000,"more":true,"tokens_used":10000000}')


class Lesson(TypedDict):
    """What a model needs to weigh a memory; what is not so is left out."""

    id: str
    standing: NotRequired[str]
    suspicious: NotRequired[list[str]]
    draft: NotRequired[bool]
    warning: NotRequired[bool]
    contradicts: NotRequired[list[str]]
    outcome: str
    confidence: float | None
    usage_count: int
    scope: str
    title: str
    description: str
    content: str
    error_context: NotRequired[dict[str, str]]


class FoundMemory(Lesson):
    relevance: float
    expected: float | None
    untried: NotRequired[bool]
    tried: NotRequired[int]
    worked: NotRequired[int]
    failing: NotRequired[bool]
    weak: NotRequired[bool]
    outdated_by: NotRequired[str]
    via: NotRequired[str]


class Facts(TypedDict):
    total_found: int
    more: NotRequired[bool]
    degraded: NotRequired[bool]
    skipped: NotRequired[list[str]]
    notes: NotRequired[list[str]]
    hint: NotRequired[str]
    held_out: NotRequired[bool]
    tokens_used: int


class Found(Facts):
    memories: list[FoundMemory]


class Retrieved(Facts):
    memories: list[ShownMemory]


class Advice(TypedDict):
    strategy: Lesson | None
    warnings: list[Lesson]
    failed: list[Lesson]
    reasoning: str
    expected: float | None
    confidence: float | None
    tried: int
    worked: int
    successful_uses: int
    keywords: list[str]
    domain: str | None
    degraded: bool


if TYPE_CHECKING:
    ShownMemory: TypeAlias = dict[str, Any]
else:
    ShownMemory = shapes.some_of(
        model.Memory, relevance=float, similarity_score=float, recency_score=float,
        composite_score=float, expected=float, untried=bool, tried=int, worked=int, failing=bool,
        weak=bool, outdated_by=str, warning=bool, contradicts=list[str],
        suspicious=list[str],
        error_context=dict[str, str],
    )  # fmt: skip


# Memories, as tools tell them


def lesson(memory: Memory) -> JSON:
    error = memory.error_context
    told: JSON = {name: value for name, value in memory.to_json().items() if name in _LESSON}
    if memory.standing is Standing.CONFIRMED:
        del told["standing"]
    if memory.draft:
        told["draft"] = True
    if error is not None:
        told |= {
            "warning": True,
            "error_context": {
                "error_type": error.error_type,
                "failure_pattern": error.failure_pattern,
                "corrective_guidance": error.corrective_guidance,
            },
        }
    else:
        del told["error_context"]
    return told


_LESSON = Lesson.__annotations__


def found(hit: Hit) -> JSON:
    return (
        lesson(hit.memory)
        | _given(relevance=hit.relevance, via=hit.via)
        | _forecast(hit)
        | _given(contradicts=list(hit.contradicts), suspicious=list(hit.suspicious))
        | _doubts(hit)
    )


def _forecast(hit: Hit) -> JSON:
    """How likely it is to help here; what was never tried says so in a word."""
    if not hit.tried:
        return _given(expected=hit.expected, untried=True)
    return _given(
        expected=hit.expected, tried=hit.tried, worked=hit.worked, failing=hit.failing or None
    )


def _doubts(hit: Hit) -> JSON:
    return _given(weak=hit.weak or None, outdated_by=hit.outdated_by)


def shown(memory: Memory, suspicious: Sequence[str] = ()) -> JSON:
    """A memory with every field that has a value."""
    told = memory.to_json() | {"suspicious": list(suspicious)}
    if memory.error_context is not None:
        told["error_context"] = _given(**told["error_context"])
    return _given(**told)


def retrieved(hit: Hit) -> JSON:
    return (
        shown(hit.memory, hit.suspicious)
        | _given(
            relevance=hit.relevance,
            similarity_score=hit.parts["similarity"],
            recency_score=hit.parts["recency"],
            composite_score=hit.parts["composite"],
            warning=hit.warning or None,
            contradicts=list(hit.contradicts),
        )
        | _forecast(hit)
        | _doubts(hit)
    )


def advice(found: Recommendation) -> JSON:
    """A strategy that is a warning as well is told once."""
    best = found.strategy
    return {
        "strategy": lesson(best) if best else None,
        "warnings": [lesson(one) for one in found.warnings if best is None or one.id != best.id],
        "failed": [lesson(one) for one in found.failed],
        "reasoning": found.reasoning,
        "expected": found.expected,
        "confidence": found.confidence,
        "tried": found.tried,
        "worked": found.worked,
        "successful_uses": found.successful_uses,
        "keywords": list(found.keywords),
        "domain": found.domain,
        "degraded": found.degraded,
    }


def answer(reply: Reply, memories: Sequence[JSON], max_tokens: int | None = None) -> JSON:
    """What a search found. Where the budget is tight, a reason why it is poor gives way."""
    facts = _given(
        total_found=reply.total_found,
        more=reply.more or None,
        degraded=reply.degraded or None,
        skipped=list(reply.skipped),
        notes=list(reply.notes),
        hint=reply.hint,
        held_out=reply.held_out or None,
        tokens_used=0,
    )
    told = {"memories": list(memories)} | facts
    if max_tokens is not None and priced(told)["tokens_used"] > max_tokens:
        told.pop("notes", None)
        told.pop("hint", None)
    return told


def cost(hit: Hit) -> int:
    """The tokens that a hit takes in an answer, with the comma after it."""
    return tokens_in(as_text(_unposing(found(hit))) + ",")


def _given(**values: Any) -> JSON:
    return {name: value for name, value in values.items() if value is not None and value != []}


# Answers, as clients get them


def result_of(told: Any, *, holds_memories: bool) -> CallToolResult:
    if holds_memories:
        told = _unposing(told)
        if "tokens_used" in told:
            told = priced(told)
    return CallToolResult(
        content=[TextContent(type="text", text=as_text(told))],
        structured_content=None if holds_memories else told,
    )


def priced(told: JSON) -> JSON:
    """``told`` with the tokens of the whole text that a client receives, that number included."""
    tokens = 0
    while True:
        told = told | {"tokens_used": tokens}
        counted = tokens_in(as_text(told))
        if counted == tokens:
            return told
        tokens = counted


def as_text(told: Any) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _unposing(value: Any) -> Any:
    """No string of a memory can leave its JSON; nor, by this, pose as a mark or a turn."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {name: _unposing(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_unposing(part) for part in value]
    return value


def holds_memories(shape: Any) -> bool:
    """Whether the text of a memory is in an answer of this shape."""
    if is_typeddict(shape):
        parts = shape.__annotations__
        if parts.keys() >= {"title", "content"}:
            return True
        return any(map(holds_memories, get_type_hints(shape).values()))
    return any(map(holds_memories, get_args(shape)))
