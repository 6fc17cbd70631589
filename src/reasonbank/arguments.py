"""What methods take: types with a rule and a meaning, and a class that applies them."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, wraps
from types import FunctionType
from typing import Annotated, Any, TypeVar, get_type_hints

from reasonbank.errors import ReasonBankError
from reasonbank.fields import (
    LIMITS,
    SHARE,
    Id,
    Nested,
    Rule,
    Text,
    Whole,
    rule_of,
)


class NameOf(Text):
    """What something is found by: a secret in it is replaced, by the same for the same name."""


AnId = Annotated[str, Id(), "A UUID."]
Query = Annotated[str, Text(LIMITS.query)]
Session = Annotated[str, NameOf(LIMITS.label), "The task; one report each counts."]
Comment = Annotated[str, Text(LIMITS.comment, blank=True)]
Reason = Annotated[str, Text(LIMITS.comment)]
Name = Annotated[str, NameOf(LIMITS.label)]
TaskAtHand = Annotated[
    Name, "The task at hand, so that its outcome can be credited to what was found."
]
RevisionNumber = Annotated[int, Whole(1), "The revision to return to; else the last change."]
Results = Annotated[int, Whole(1, LIMITS.results), "Maximum number of results."]
Budget = Annotated[int, Whole(1, 10_000_000), "In tokens."]
Newest = Annotated[int, Whole(1, 100_000), "Maximum number of results."]
Days = Annotated[int, Whole(0, 100_000)]
Share = Annotated[float, SHARE]
Everywhere = Annotated[bool, "All workspaces; needs admin."]
DryRun = Annotated[bool, "Show the plan and change nothing."]

C = TypeVar("C", bound=type)


def checks_arguments(face: C) -> C:
    """Checks what its public methods are given, so that nothing below them need check.

    ``self.settings.limits`` may lower what the rules allow; ``self.context`` takes secrets out
    of names, and of errors that quote what was given.
    """
    for name, method in list(vars(face).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(face, name, _checked(method))
    return face


def _checked(method: Any) -> Any:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            args, options = _fitting(self, method, args, options)
            return method(self, *args, **options)
        except ReasonBankError as error:
            self.context.hush(error)
            raise

    return call


def _fitting(
    face: Any, method: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names, rules = _rules(method)
    if not rules:
        return args, options
    held = [
        _fit(face, rules[name], value, name) if name in rules else value
        for name, value in zip(names, args, strict=False)
    ]
    known = rules.keys() & options.keys()
    fit = {name: _fit(face, rules[name], options[name], name) for name in known}
    return (*held, *args[len(held) :]), options | fit


def _fit(face: Any, ruled: tuple[Rule, bool], value: Any, name: str) -> Any:
    rule, optional = ruled
    if value is None and optional:
        return value
    value = rule.check(value, name, face.settings.limits)
    if isinstance(rule, NameOf):
        value = face.context.fit_name(value, LIMITS.label)
    return value


@cache
def _rules(method: Any) -> tuple[tuple[str, ...], dict[str, tuple[Rule, bool]]]:
    code = method.__code__
    found = {name: rule_of(hint) for name, hint in parameter_types(method).items()}
    # A dataclass has rules of its own, and is checked where it is used.
    rules = {n: (r, optional) for n, (r, optional) in found.items() if r and type(r) is not Nested}
    return code.co_varnames[1 : code.co_argcount], rules


def parameter_types(method: Any) -> dict[str, Any]:
    """The annotations of what a function takes; what it answers may not be loaded yet."""
    alike = FunctionType(method.__code__, method.__globals__)
    found: dict[str, Any] = {}
    for name, hint in method.__annotations__.items():
        alike.__annotations__ = {name: hint}
        # What only type checkers know has no rule.
        with suppress(NameError):
            found |= get_type_hints(alike, include_extras=True) if name != "return" else {}
    return found
