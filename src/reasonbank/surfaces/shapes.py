"""The shapes of what surfaces take and answer, as types that become JSON schemas.

Most are made here, from dataclasses and from signatures; what stands as a class below says
something that no type of the library says.
"""

from __future__ import annotations

import inspect
import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import FunctionType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BeforeValidator, ConfigDict, Field, with_config
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

# pydantic refuses `typing.TypedDict` before Python 3.12.
from typing_extensions import TypedDict

from reasonbank import answers, model
from reasonbank.arguments import IdOf, Share, parameter_types
from reasonbank.fields import (
    ENDLESS,
    LIMITS,
    REFUSED,
    Rule,
    Text,
    Whole,
    rule,
    ruled,
)
from reasonbank.store.given import DERIVED

if TYPE_CHECKING:
    from reasonbank.surfaces.operations import Operation


def unpacked(value: Any) -> Any:
    """Some clients send a list or an object as JSON in a string."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def problem(found: ErrorDetails) -> str:
    """What pydantic found wrong, in the words of the library."""
    context = found.get("ctx", {})
    match found["type"]:
        case "missing":
            return "is missing"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "literal_error":
            allowed = context["expected"].replace("'", "").replace(" or ", ", ")
            return f"must be one of {allowed} (got {reprlib.repr(found['input'])})"
        case "too_long":
            most, count = context["max_length"], context["actual_length"]
            return f"has {count:,} entries; at most {most:,} are allowed"
    if found["type"] == REFUSED:
        return found["msg"]
    return f"{found['msg']}, got {reprlib.repr(found['input'])}"


# What tools take


def meaning(name: str) -> str:
    """What a field of a memory is, in the words that stand beside it."""
    return next(f.meaning for f in ruled(model.Memory) if f.name == name)


MemoryId = Annotated[str, IdOf("memory"), Field(description="As a search gave it.")]
Tags = Annotated[list[str], rule(model.Memory, "tags"), BeforeValidator(unpacked)]
Title = Annotated[str, rule(model.Memory, "title"), Field(description=meaning("title"))]
Description = Annotated[
    str, rule(model.Memory, "description"), Field(description=meaning("description"))
]
Content = Annotated[str, rule(model.Memory, "content"), Field(description=meaning("content"))]
Verdict = Annotated[
    Literal["success", "failure"],
    Field(description="success: to follow. failure: to avoid."),
]
Label = model.Label
ErrorText = model.ErrorText
ErrorType = Annotated[str, rule(model.ErrorContext, "error_type")]
Confirm = Annotated[bool, Field(description="Must be true; ask your user first.")]


class ErrorContext(TypedDict):
    """What went wrong, how to recognise it and what to do instead."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    error_type: ErrorType
    failure_pattern: ErrorText
    corrective_guidance: ErrorText


# What the JSON API takes: what is left out has the library's default. Unknown fields are
# refused, and no value is taken for one of another type.

closed = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
MOMENT = Annotated[
    str,
    Text(64),
    Field(
        description="An ISO 8601 time; without an offset, in UTC.",
        json_schema_extra={"format": "date-time"},
    ),
]
BY_HAND = ("explicit", "distilled", "passive", "solved")
"""What a caller may say that a memory comes from; the rest only the bank itself knows."""


@cache
def taken(operation: Operation) -> Any:
    """What an operation takes beside what is in its path; None if that is nothing at all."""
    if operation.body is not None:
        return given(operation.body)  # type: ignore[arg-type]
    shape: dict[str, Any] = {}
    hints = parameter_types(inspect.unwrap(operation.run))
    for name, parameter in list(operation.signature.parameters.items())[1:]:
        if name in operation.in_path or name in ("progress", "file", "cost"):
            continue
        kind = _noun(_only(hints.get(name, Any)))
        if parameter.kind is parameter.VAR_KEYWORD:
            shape |= {field: _input(model.Memory, field) for field in model.REVISABLE}
        elif kind is model.Filter:
            shape |= {f.name: _input(model.Filter, f.name) for f in fields(model.Filter)}
        elif kind is model.Trace:
            shape[name] = given(model.Trace)
        else:
            hint = hints[name] if operation.nullable else _only(hints[name])
            hint = _capped(hint, operation.most.get(name, ENDLESS))
            needed = parameter.default is inspect.Parameter.empty
            shape[name] = Required[json_type(hint)] if needed else json_type(hint)
    if not shape and operation.in_query:
        return None
    return closed(_typed_dict(operation.name, shape, total=False))


def items_of(operation: Operation, answer: Any) -> Any:
    return _typed_dict(f"{operation.name}_items", {"items": answer})


def _capped(hint: Any, most: int) -> Any:
    rules = getattr(hint, "__metadata__", ())
    high = next((rule for rule in rules if isinstance(rule, Whole) and rule.most > most), None)
    return hint if high is None else Annotated[int, Whole(high.least, most)]


@cache
def given(kind: type[Any]) -> Any:
    """A memory, a trace or a part of one, as somebody sends it."""
    lesson = ("id", *(name for name in model.LESSON if name != "source_span"))
    names = lesson if kind is model.Memory else tuple(f.name for f in fields(kind))
    derived = DERIVED if kind is model.Memory else ()
    needed = {f.name for f in ruled(kind) if f.needed and f.name not in derived}  # type: ignore[arg-type]
    shape = {n: Required[_input(kind, n)] if n in needed else _input(kind, n) for n in names}
    return closed(_typed_dict(f"Given{kind.__name__}", shape, total=False))


def _input(kind: type[Any], name: str) -> Any:
    if kind is model.Memory and name == "source":
        return Literal[BY_HAND]
    hint = get_type_hints(kind, include_extras=True)[name]
    if kind is model.Filter:
        if name in ("created_after", "created_before"):
            return MOMENT
        hint = _only(hint)
    return json_type(hint)


def _only(hint: Any) -> Any:
    """``hint`` without None."""
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        return Union[tuple(rest)]  # noqa: UP007
    return hint


def _noun(hint: Any) -> Any:
    """The dataclass of what may also be given in plain words."""
    return next((part for part in get_args(hint) if is_dataclass(part)), hint)


def arguments(operation: Operation, sent: Mapping[str, Any]) -> dict[str, Any]:
    """What was sent, as the operation's function takes it."""
    names = list(operation.signature.parameters)[1:]
    if operation.body is not None:
        return {names[0]: dict(sent)}
    found = dict(sent)
    if "filter" in names:
        found["filter"] = {
            f.name: found.pop(f.name) for f in fields(model.Filter) if f.name in found
        }
    return found


def field_type(kind: type[Any], name: str, description: str) -> Any:
    """The type of a field as somebody sends it, or leaves it out."""
    hint = _input(kind, name)
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if NoneType in get_args(inner):
        hint = _only(inner)
    elif get_origin(inner) is list:
        hint = Annotated[hint, BeforeValidator(unpacked)]
    return Annotated[hint | None, Field(description=description)]


# What is answered


def json_type(hint: Any, *, answer: bool = False) -> Any:
    """The type of a value's JSON. In an answer every field is there, and no rule is applied."""

    def inner(part: Any) -> Any:
        return json_type(part, answer=answer)

    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        rules = () if answer else tuple(m for m in hint.__metadata__ if isinstance(m, Rule))
        told = [Field(description=m) for m in hint.__metadata__ if isinstance(m, str)]
        return Annotated[(inner(parts[0]), *rules, *told)] if rules or told else inner(parts[0])
    if origin in (Union, UnionType):
        kinds = [part for part in parts if not (part is str and _is_enum(parts[0]))]
        return Union[tuple(inner(part) for part in kinds)]  # noqa: UP007
    if origin in (tuple, list):
        items = dict.fromkeys(inner(part) for part in parts if part is not Ellipsis)
        many: Any = list[Union[tuple(items)]]  # type: ignore[misc] # noqa: UP007
        most = len(parts[0]) if _is_enum(parts[0]) and not answer else 0
        return Annotated[many, Field(max_length=most)] if most else many
    if origin in (dict, Mapping) or hint is dict:
        return dict[str, inner(parts[1])] if parts else dict[str, Any]  # type: ignore[misc]
    if _is_enum(hint):
        return Literal[tuple(str(word) for word in hint)]
    if hint is datetime:
        return (
            Annotated[str, Field(json_schema_extra={"format": "date-time"})] if answer else MOMENT
        )
    if is_dataclass(hint):
        kind: Any = hint
        return shape_of(kind) if answer else given(kind)
    return hint


def _typed_dict(name: str, shape: Mapping[str, Any], *, total: bool = True) -> Any:
    make: Any = TypedDict
    return make(name, shape, total=total)


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, StrEnum)


@cache
def shape_of(kind: type[Any], **more: Any) -> Any:
    """The JSON of a dataclass, and what is told beside it."""
    if not more and (own := _own_shapes().get(kind)) is not None:
        return own
    if (flat := _flat_shapes().get(kind)) is not None:
        return flat()
    hints = get_type_hints(kind)
    shape = {f.name: json_type(hints[f.name], answer=True) for f in fields(kind)}
    found: Any = _typed_dict(kind.__name__, shape | more)
    found.__doc__ = kind.__doc__
    return found


def some_of(kind: type[Any], **more: Any) -> Any:
    """The JSON of a dataclass in which any field may be left out, and what is told beside it."""
    whole: Any = shape_of(kind)  # type: ignore[arg-type]
    shape = whole.__annotations__ | more
    return _typed_dict(f"Shown{kind.__name__}", shape, total=False)


def answered(operation: Operation) -> Any:
    """The type of an operation's answer."""
    if operation.message is not None:
        return _typed_dict("Message", {"message": str})
    hint = returned(operation.run)
    if operation.name == "record":
        return shape_of(model.Memory, derived=NotRequired[list[str]])
    if operation.key is not None:
        return _typed_dict(f"{operation.name}_answer", {operation.key: hint})
    return json_type(hint, answer=True)


def returned(function: Callable[..., Any]) -> Any:
    """What a function answers, even if its module names that for type checkers only."""
    found = inspect.unwrap(function)
    alike = FunctionType(found.__code__, found.__globals__)
    alike.__annotations__ = {"return": found.__annotations__["return"]}
    return get_type_hints(alike, localns={"answers": answers} | vars(answers))["return"]


@cache
def _own_shapes() -> dict[type[Any], Any]:
    """Where an answer's JSON is not simply the fields of its type."""

    def job(kind: type[model.Job]) -> Any:
        hints = get_type_hints(kind)
        told = [f.name for f in fields(kind) if f.name not in ("claim", "checkpoint")]
        shape = {name: json_type(hints[name], answer=True) for name in told}
        return _typed_dict(kind.__name__, shape)

    return {
        model.Reply: Answer,
        model.Step: StoredStep,
        model.Job: job(model.Job),
        model.HandedIn: job(model.HandedIn),
        answers.Imported: Imported,
        answers.Result: Consolidated,
        answers.Report: LearningReport,
    }


@cache
def _flat_shapes() -> dict[type[Any], Callable[[], Any]]:
    """Where what is told of a memory stands beside its own fields."""
    from reasonbank.search.look import Looked
    from reasonbank.store.beliefs import Believed
    from reasonbank.surfaces.views import Lesson, Rival

    def lesson(**more: Any) -> Any:
        believed = json_type(Believed, answer=True)
        return shape_of(model.Memory, belief=believed, suspicious=list[str], **more)

    def looked() -> Any:
        hits = lesson(**{name: kind for name, kind in RANKED.items() if name != "suspicious"})
        many: Any = list[hits]  # type: ignore[valid-type]
        beside = {"memories": many, "asked": json_type(model.Gap | None, answer=True)}
        return _typed_dict("Looked", Answer.__annotations__ | LookedAt.__annotations__ | beside)

    why = Literal["contradicts", "newer", "older"]
    return {Looked: looked, Lesson: lesson, Rival: lambda: lesson(why=why)}


# What no type of the library says


class DoneStep(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[misc]

    action: Required[
        Annotated[str, Text(LIMITS.content), Field(description="think, command, edit, user …")]
    ]
    content: Annotated[str, Field(description="The thought, the command, the file.")]
    feedback: Annotated[
        str, Field(description="What came of it; a command's begins 'exit code N'.")
    ]
    score: Share
    # As a stored session has them; a step that is told just now needs neither.
    iteration: SkipJsonSchema[Annotated[int, rule(model.Step, "iteration")]]
    at: SkipJsonSchema[MOMENT]


class ReplyFacts(TypedDict):
    total_found: int
    tokens_used: int
    more: bool
    embedder: str
    degraded: bool
    notes: list[str]
    skipped: list[str]
    held_out: NotRequired[bool]


class Recorded(TypedDict):
    id: str
    message: str
    initial_confidence: float


class Rated(TypedDict):
    success: bool
    new_confidence: float
    message: str


class Reported(TypedDict):
    """Of one memory, or of a whole task."""

    recorded: bool
    new_confidence: NotRequired[float]
    credited: NotRequired[int]
    held_out: NotRequired[bool]
    message: str


class Difference(TypedDict):
    """Tasks with memory beside tasks without; what cannot be told yet is null."""

    with_memory: int
    with_succeeded: int
    without: int
    without_succeeded: int
    difference: float | None
    low: float | None
    high: float | None
    harm: float | None


class NotCounted(TypedDict):
    """Tasks that are not compared, each by the first reason that holds."""

    found_nothing: int
    not_drawn: int
    not_ended_with: int
    not_ended_without: int
    told_by_memory: int


class NamedDifference(Difference):
    id: str
    title: str | None


class NamedMemory(TypedDict):
    id: str
    title: str | None


class CalibrationBin(TypedDict):
    low: float
    high: float
    count: int
    predicted: float
    observed: float


class Calibration(TypedDict):
    count: int
    brier: float | None
    expected_error: float | None
    bins: list[CalibrationBin]


class UnheededWarning(NamedMemory):
    count: int


class MetWarning(NamedMemory):
    again: int
    although_shown: int
    avoided: int


class MistakesInSessions(TypedDict):
    again: int
    although_shown: int
    avoided: int
    by_warning: list[MetWarning]


class RepeatedMistakes(TypedDict):
    failures: int
    warned: int
    rate: float | None
    by_warning: list[UnheededWarning]
    in_sessions: MistakesInSessions


class TasksNeeded(TypedDict):
    """Until memory is proven to help or to hurt, if tasks go as before; null: not foreseeable."""

    tasks: int | None
    hold_out: float


class LearnedInAWeek(TypedDict):
    week: str
    count: int


class LearningReport(TypedDict):
    workspace: str
    tasks: int
    held_out: int
    hold_out_share: float
    memory: Difference
    needed: TasksNeeded
    not_counted: NotCounted
    by_memory: list[NamedDifference]
    harmful: list[NamedMemory]
    calibration: Calibration
    confidence_calibration: Calibration
    repeated_mistakes: RepeatedMistakes
    learned: list[LearnedInAWeek]
    sentences: list[str]


# What the JSON API answers beyond the above: what the library's `to_json` says.


class Problem(TypedDict, total=False):
    error: Required[str]
    message: Required[str]
    field: str


class Dropped(TypedDict):
    id: str
    reason: str


class Answer(ReplyFacts, total=False):
    memories: Required[list[RankedMemory]]
    dropped: list[Dropped]
    hint: str


class NearlyFound(Dropped):
    title: str
    relevance: float | None


class Reason(TypedDict):
    reason: str
    count: int


class LookedAt(TypedDict):
    """Beside what a search answers."""

    considered: int
    dropped: list[NearlyFound]
    left_out: list[Reason]
    nearest: NearlyFound | None
    weights: dict[str, float]
    hint: str | None
    milliseconds: float


class StoredStep(TypedDict, total=False):
    iteration: Required[int]
    action: Required[str]
    content: str
    score: float
    feedback: str
    at: str


class Imported(TypedDict, total=False):
    new: Required[int]
    skipped: Required[int]
    events: int
    memories: int


class PlannedMember(TypedDict):
    id: str
    title: str


class PlannedCluster(TypedDict):
    id: str
    members: list[PlannedMember]
    mean_similarity: float
    least_similarity: float


class LeftApart(TypedDict):
    ids: list[str]
    reason: str


class Consolidated(TypedDict):
    created_memories: list[str]
    archived_memories: list[str]
    skipped_count: int
    total_processed: int
    duration_seconds: float
    batch: str | None
    dry_run: bool
    links_drawn: int
    skipped: list[LeftApart]
    skipped_reasons: dict[str, int]
    clusters: list[PlannedCluster]
    message: str


# The memory in full, and what is told beside it. Made here, so that a new field is in all of them.
RANKED: dict[str, Any] = {
    "relevance": float,
    "score": float,
    "tried": int,
    "worked": int,
    "failing": bool,
    "weak": bool,
    "warning": bool,
    "contradicts": list[str],
    "suspicious": list[str],
    "expected": NotRequired[float],
    "untried": NotRequired[bool],
    "outdated_by": NotRequired[str],
    "passage": NotRequired[str],
    "via": NotRequired[str],
    "parts": NotRequired[dict[str, float]],
}
if TYPE_CHECKING:
    RankedMemory: TypeAlias = dict[str, Any]
else:
    RankedMemory = shape_of(model.Memory, **RANKED)
