"""What a tool is, before any tool: a function, its words and hints, and the right it needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, get_type_hints

from mcp.types import ToolAnnotations

from reasonbank.model import Right
from reasonbank.surfaces.call import Call

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool. Its function takes ``bank`` first, or the whole ``call``; then what a model sends.

    It runs in a worker thread, or, if it is ``async``, in the event loop. ``right`` is what
    its caller must at least have.
    """

    function: Callable[..., Any]
    title: str
    right: Right
    hints: ToolAnnotations
    formerly: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What a parameter used to be called: still taken, and told to nobody."""
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    told: tuple[str, ...] = ()
    """The parameters that a model is told of; none named: all. Every one of them is taken."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def first(self) -> str:
        return next(iter(inspect.signature(self.function).parameters))

    def renamed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        now = {old: new for old, new in self.formerly.items() if new not in arguments}
        return {now.get(name, name): value for name, value in arguments.items()}

    def run(self, call: Call, arguments: dict[str, Any]) -> Any:
        first = call.bank if self.first == "bank" else call
        return self.function(first, **arguments)


def taking(parameters: Mapping[str, Any], *, into: str) -> Callable[[Function], Function]:
    """Lets a function take these as well, each of them optional, together as its ``into``."""

    def decorate(function: Function) -> Function:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(function).parameters.items()
            if name != into
        ]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in parameters.items()
        ]

        @wraps(function)
        def call(first: Any, **given: Any) -> Any:
            told = {n: v for n in parameters if (v := given.pop(n, None)) is not None}
            return function(first, **given, **{into: told})

        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*own, *more], return_annotation=hints["return"]
        )
        told = {p.name: p.annotation for p in (*own, *more)}
        call.__annotations__ = told | {"return": hints["return"]}
        return call

    return decorate
