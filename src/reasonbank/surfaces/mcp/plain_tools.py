"""The tools that need no words of their own: made from the table of operations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_origin

from mcp.types import ToolAnnotations

from reasonbank.bank import Bank
from reasonbank.model import Right
from reasonbank.surfaces import shapes
from reasonbank.surfaces.mcp.tool import ToolSpec
from reasonbank.surfaces.operations import OPERATIONS, Operation


def plain_tools() -> Iterator[ToolSpec]:
    return (plain_tool(operation) for operation in OPERATIONS if operation.tool is not None)


def plain_tool(operation: Operation) -> ToolSpec:
    """An answer is an object: a bare list becomes its ``items``."""
    answer = shapes.answered(operation)
    bare = get_origin(answer) is list

    def function(bank: Bank, **given: Any) -> Any:
        result = operation.run(bank, **given)
        return {"items": result} if bare else result

    kind = inspect.Parameter.KEYWORD_ONLY
    taken = [
        inspect.Parameter(name, kind, default=parameter.default, annotation=hint)
        for name, parameter, hint in shapes.parameters(operation)
    ]
    first = inspect.Parameter("bank", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Bank)
    shape = shapes.items_of(operation, answer) if bare else answer
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first, *taken], return_annotation=shape
    )
    function.__annotations__ = {p.name: p.annotation for p in (first, *taken)} | {"return": shape}
    function.__name__ = function.__qualname__ = str(operation.tool)
    function.__doc__ = operation.description
    reads = operation.right is Right.READ
    title = str(operation.tool).replace("_", " ").capitalize()
    hints = ToolAnnotations(
        title=title, read_only_hint=reads, destructive_hint=False, idempotent_hint=reads,
        open_world_hint=False,
    )  # fmt: skip
    return ToolSpec(function=function, title=title, right=operation.right, hints=hints)
