"""What a tool is, before any tool: a function, its words and hints, and the right it needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.types import ToolAnnotations

from reasonbank.model import Right
from reasonbank.surfaces.call import Call


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

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def first(self) -> str:
        return next(iter(inspect.signature(self.function).parameters))

    def run(self, call: Call, arguments: dict[str, Any]) -> Any:
        first = call.bank if self.first == "bank" else call
        return self.function(first, **arguments)
