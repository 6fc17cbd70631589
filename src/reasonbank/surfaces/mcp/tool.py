"""What a tool is, before any tool: a function, its words and hints, and the right it needs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp.types import ToolAnnotations

from reasonbank.access import Caller
from reasonbank.bank import Bank
from reasonbank.llm.port import Model
from reasonbank.model import Right


class Progress(Protocol):
    """Tells the client how far the work is; ends the work here if the call was cancelled.

    So call it only where stopping leaves a whole bank: between two transactions.
    """

    def __call__(self, done: int, total: int, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One call: the bank as its caller sees it, who that is, and how to tell of progress."""

    bank: Bank
    caller: Caller
    progress: Progress
    report: Callable[[float, float, str], Awaitable[None]] | None = None
    """Tells the client how far an ``async`` tool is."""
    model: Model | None = None
    clients_model: Model | None = None
    """The one of whoever calls, if the settings want it and the client offers it."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Survives while the client is asked: it answers by calling again, and the tool begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool. Its function takes ``bank`` first, or the whole ``errand``; then what a model sends.

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

    def run(self, errand: Errand, arguments: dict[str, Any]) -> Any:
        first = errand.bank if self.first == "bank" else errand
        return self.function(first, **arguments)
