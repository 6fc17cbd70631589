"""The rules that stand in the signatures of a class, applied before its methods run."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar, get_type_hints

from reasonbank.fields import Limits, Nested, Rule, rule_of

C = TypeVar("C", bound=type)


def checks_arguments(face: C) -> C:
    """Checks what its public methods are given, so that nothing below them need check.

    ``self.settings.limits`` may lower what the rules allow.
    """
    for name, method in list(vars(face).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(face, name, _checked(method))
    return face


def _checked(method: Any) -> Any:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        names, rules = _rules(method)
        if not rules:
            return method(self, *args, **options)
        limits = self.settings.limits
        held = [
            _fit(rules[name], value, name, limits) if name in rules else value
            for name, value in zip(names, args, strict=False)
        ]
        for name in rules.keys() & options.keys():
            options[name] = _fit(rules[name], options[name], name, limits)
        return method(self, *held, *args[len(held) :], **options)

    return call


def _fit(ruled: tuple[Rule, bool], value: Any, name: str, limits: Limits) -> Any:
    rule, optional = ruled
    return value if value is None and optional else rule.check(value, name, limits)


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
