"""What methods take: types with a rule and a meaning, and a class that applies them."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, wraps
from inspect import getattr_static
from types import FunctionType, NoneType, UnionType
from typing import IO, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from reasonbank.errors import InvalidInput, ReasonBankError
from reasonbank.fields import (
    LIMITS,
    SHARE,
    Id,
    Limits,
    Nested,
    Rule,
    Text,
    Whole,
    parse_id,
    rule_of,
)


class NameOf(Text):
    """What something is found by: a secret in it is replaced, by the same for the same name."""


class IdOf(Id):
    """The id of a ``kind`` of thing, or so much of it that no other one in sight has it.

    A part may be from anywhere: ids that were made in the same minute begin alike.
    """

    least = 8
    _part = re.compile(rf"[0-9a-f]{{{least},31}}").fullmatch

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def check(self, value: Any, name: str, limits: Limits) -> str:
        try:
            return parse_id(value, name)
        except InvalidInput:
            digits = value.strip().replace("-", "").lower() if isinstance(value, str) else ""
            if self._part(digits):
                return digits
        raise InvalidInput(
            name,
            f"{str(value)[:80]!r} is not a UUID, nor {self.least} or more digits of one in a row; "
            f"give the id of a {self.kind}, or as much of it as no other has",
        )

    def schema(self) -> dict[str, Any]:
        return {"minLength": self.least, "maxLength": 64}


_A_PART = "A UUID, or 8 or more of its digits in a row that no other has."
AnId = Annotated[str, IdOf("memory"), _A_PART]
TraceId = Annotated[str, IdOf("trace"), _A_PART]
JobId = Annotated[str, IdOf("job"), _A_PART]
BatchId = Annotated[str, IdOf("batch"), _A_PART]
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


class Like(Rule):
    """Whatever has these methods and attributes, or ``text``; but no class that has them."""

    def __init__(self, *names: str, words: str = "", text: bool = False) -> None:
        self.names = names
        self.text = text
        self.words = words or f"{'text or ' * text}an object with {' and '.join(names)}"

    def check(self, value: Any, name: str, limits: Limits) -> Any:
        if self.text and isinstance(value, str):
            return value
        if isinstance(value, type) or not all(_has(value, each) for each in self.names):
            raise InvalidInput(name, f"must be {self.words}, got {_kind(value)}")
        return value


def _has(value: Any, name: str) -> bool:
    """Not by asking first: what a property says may be slow to find out."""
    nothing = object()
    return getattr_static(value, name, nothing) is not nothing or hasattr(value, name)


class Called(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> Any:
        if not callable(value):
            raise InvalidInput(name, f"must be a function, got {_kind(value)}")
        return value


class File(Rule):
    """An open file of text, by the ``method`` that is needed and the one that says if it can."""

    def __init__(self, method: str, able: str) -> None:
        self.method, self.able = method, able

    def check(self, value: Any, name: str, limits: Limits) -> Any:
        if isinstance(value, type) or not callable(getattr(value, self.method, None)):
            raise InvalidInput(name, f"must be an open file, got {_kind(value)}")
        binary = isinstance(value, io.RawIOBase | io.BufferedIOBase)
        if binary or "b" in str(getattr(value, "mode", "")):
            raise InvalidInput(name, "must be a file of text, and this one is binary")
        with suppress(ValueError):  # One that is closed cannot say.
            if getattr(value, self.able, lambda: True)():
                return value
        raise InvalidInput(name, f"is closed, or not {self.able}")


Readable = Annotated[IO[str], File("readline", "readable")]
Writable = Annotated[IO[str], File("write", "writable")]


class Kind(Rule):
    """One of some types, where nothing more is to be said."""

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self.kinds = kinds

    def check(self, value: Any, name: str, limits: Limits) -> Any:
        # True is a number to Python, and to nobody else.
        if not isinstance(value, self.kinds) or (
            value.__class__ is bool and bool not in self.kinds
        ):
            raise InvalidInput(name, f"must be {self}, got {_kind(value)}")
        return value

    def __str__(self) -> str:
        return " or ".join(_WORDS.get(kind) or _a(kind.__name__) for kind in self.kinds)


_WORDS = {str: "text", int: "a whole number", os.PathLike: "a path", Mapping: "an object"}


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def checks_arguments(face: C) -> C:
    """Checks what its public methods are given, so that nothing below them need check.

    ``self.settings.limits`` may lower what the rules allow; ``self.context`` takes secrets out
    of names, and of errors that quote what was given.
    """
    for name, method in list(vars(face).items()):
        if name.startswith("_"):
            continue
        if isinstance(method, FunctionType):
            setattr(face, name, _checked(method))
        elif isinstance(method, classmethod):
            setattr(face, name, classmethod(_checked(method.__func__)))
    return face


def _checked(method: Any) -> Any:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        # Of a bank that cannot be used at all, its settings say so at once; it can be closed.
        plain = isinstance(self, type) or method.__name__ == "close"
        limits = LIMITS if plain else self.settings.limits
        try:
            names, rules = _rules(method)
            held = [
                _fit(self, rules[name], value, name, limits) if name in rules else value
                for name, value in zip(names, args, strict=False)
            ]
            for name, rule in rules.items():
                if name in options:
                    options[name] = _fit(self, rule, options[name], name, limits)
            return method(self, *held, *args[len(held) :], **options)
        except ReasonBankError as error:
            if not plain:
                self.context.hush(error)
            raise

    return call


def _fit(face: Any, ruled: tuple[Rule, bool], value: Any, name: str, limits: Limits) -> Any:
    rule, optional = ruled
    if value is None and optional:
        return value
    value = rule.check(value, name, limits)
    if isinstance(rule, NameOf):
        return face.context.fit_name(value, LIMITS.label)
    if isinstance(rule, IdOf):
        return face.context.whole_id(rule.kind, value, name)
    return value


@cache
def _rules(method: Any) -> tuple[tuple[str, ...], dict[str, tuple[Rule, bool]]]:
    code = method.__code__
    found = {
        name: (_rule_of(hint), NoneType in _parts(hint))
        for name, hint in parameter_types(method, unknown=Any).items()
    }
    rules = {name: (rule, optional) for name, (rule, optional) in found.items() if rule}
    return code.co_varnames[1 : code.co_argcount], rules


def _rule_of(hint: Any) -> Rule | None:
    """The rule that an annotation says or implies; else the types that it names."""
    rule, _ = rule_of(hint)
    # A dataclass has rules of its own, and is checked where it is used.
    if rule is not None and type(rule) is not Nested:
        return rule
    parts = [part for part in _parts(hint) if part is not NoneType]
    if Callable in parts:
        return Called()
    for part in parts:
        if getattr(part, "_is_protocol", False) and part not in _WORDS:
            names = [each for each in dir(part) if not each.startswith("_")]
            return Like(*names, words=_a(part.__name__))
    return None if Any in parts else Kind(tuple(parts))


def _parts(hint: Any) -> list[Any]:
    """The types of a union, each without what it holds."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return [part for each in get_args(hint) for part in _parts(each)]
    if origin is Annotated:
        return _parts(get_args(hint)[0])
    return [origin or hint]


def parameter_types(method: Any, *, unknown: Any = None) -> dict[str, Any]:
    """The annotations of what a function takes; what it answers may not be loaded yet.

    One with a name that only type checkers know is left out, unless ``unknown`` is to stand
    for that name.
    """
    alike = FunctionType(method.__code__, method.__globals__)
    found: dict[str, Any] = {}
    for name, hint in method.__annotations__.items():
        if name == "return":
            continue
        alike.__annotations__ = {name: hint}
        names: dict[str, Any] = {}
        while True:
            try:
                found |= get_type_hints(alike, localns=names, include_extras=True)
            except NameError as error:
                if unknown is not None:
                    names[str(error.name)] = unknown
                    continue
            break
    return found
