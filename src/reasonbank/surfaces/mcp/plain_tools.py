"""The tools that need no words of their own: made from the table of operations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from mcp.types import ToolAnnotations

from reasonbank.arguments import parameter_types
from reasonbank.model import Right
from reasonbank.surfaces import shapes
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.tool import ToolSpec
from reasonbank.surfaces.operations import OPERATIONS, Operation


def plain_tools() -> Iterator[ToolSpec]:
    return (plain_tool(operation) for operation in OPERATIONS if operation.tool is not None)


def plain_tool(operation: Operation) -> ToolSpec:
    """It takes what the operation takes over HTTP. A bare list becomes ``items`` of an object."""
    answer = shapes.answered(operation)
    bare = get_origin(answer) is list

    def function(call: Call, **given: Any) -> Any:
        sent = {name: value for name, value in given.items() if value is not None}
        named = {name: sent.pop(name) for name in operation.in_path}
        result = operation.perform(call, named | shapes.arguments(operation, sent))
        return {"items": result} if bare else result

    first = inspect.Parameter("call", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Call)
    taken = [first, *_parameters(operation)]
    shape = shapes.items_of(operation, answer) if bare else answer
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        taken, return_annotation=shape
    )
    function.__annotations__ = {p.name: p.annotation for p in taken} | {"return": shape}
    function.__name__ = function.__qualname__ = str(operation.tool)
    function.__doc__ = operation.description
    title = str(operation.tool).replace("_", " ").capitalize()
    reads = operation.right is Right.READ
    hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=False)
    return ToolSpec(function=function, title=title, right=operation.right, hints=hints)


def _parameters(operation: Operation) -> Iterator[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    hints = parameter_types(inspect.unwrap(operation.run))
    for name in operation.in_path:
        yield inspect.Parameter(name, kind, annotation=shapes.json_type(hints[name]))
    shape = shapes.taken(operation)
    for name, hint in () if shape is None else shape.__annotations__.items():
        if name in shape.__required_keys__:
            yield inspect.Parameter(name, kind, annotation=get_args(hint)[0])
        else:
            yield inspect.Parameter(name, kind, default=None, annotation=hint | None)
