"""What a field may hold: said once, beside the field, and refused in the same words everywhere.

    title: Annotated[str, Text("title", strip=True)]
    tags: Annotated[tuple[str, ...], Many(Text("tag", strip=True), "tags", unique=True)] = ()

``checked`` walks a dataclass and applies its rules; ``from_json`` and ``to_json`` follow its
types. pydantic, where a surface has loaded it, finds the same rules and says the same sentence.
An enum, a time, a bool, another dataclass or a tuple of them needs no rule: its type is one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from operator import attrgetter, is_
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from reasonbank.errors import InvalidInput
from reasonbank.values import valueclass

T = TypeVar("T")
ENDLESS = 1 << 62
_Choice = TypeVar("_Choice", bound=StrEnum)


def text(
    value: object, name: str, largest: int, *, blank: bool = False, strip: bool = False
) -> str:
    """``value`` if it is text that can be stored; else an error that names the field."""
    if not isinstance(value, str):
        raise InvalidInput(name, f"must be text, got {type(value).__name__}")
    if strip:
        value = value.strip()
    if len(value) > largest:
        raise InvalidInput(name, f"has {len(value):,} characters; at most {largest:,} are allowed")
    if not blank and (not value or value.isspace()):
        raise InvalidInput(name, "must not be blank")
    if "\0" in value:
        raise InvalidInput(name, f"has a NUL character at {value.index(chr(0))}; remove it")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                name, f"has a lone surrogate at {error.start}, which is not text; remove it"
            ) from None
    return value


def choice(kind: type[_Choice], value: object, name: str) -> _Choice:
    if value.__class__ is kind:
        return value
    try:
        return kind(str(value))
    except ValueError:
        raise InvalidInput(name, _one_of(kind, value)) from None


def whole(value: object, name: str, *, least: float, most: float) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(name, f"{_short(value)} is not a whole number {_range(least, most)}")
    return value


_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def parse_id(value: str, name: str = "id") -> str:
    """The id in its one written form; whatever is no UUID is refused."""
    if isinstance(value, str) and _CANONICAL(value):
        return value
    import uuid

    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(
            name, f"{str(value)[:80]!r} is not a UUID; give the whole id, as you were told it"
        ) from None


def moment(value: object, name: str) -> datetime:
    """A time in UTC, from one or from its ISO 8601 form."""
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        found = datetime.fromisoformat(str(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(name, f"{str(value)[:80]!r} is not an ISO 8601 time") from None


def _short(value: object) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "that"
    return shown if len(shown) <= 80 else f"{shown[:80]}…"


def _one_of(allowed: Any, value: object) -> str:
    return f"must be one of {', '.join(filter(None, allowed))} (got {str(value)[:80]!r})"


class Rule:
    """What a value must be: by itself, anything.

    ``str(rule)`` says it in the words of the reference pages.
    """

    strings: ClassVar[bool] = False
    """Whether only a ``str`` can keep it."""

    def check(self, value: Any, name: str, limits: Limits) -> Any:
        """``value`` made fit, or an error that names the field."""
        return value

    def read(self, value: Any, name: str) -> Any:
        """``value`` from its JSON form: the right type, where JSON has none, and not more."""
        return value

    def write(self, value: Any) -> Any:
        """The inverse of ``read``."""
        return value

    def schema(self) -> dict[str, Any]:
        """What a JSON schema says of it, beside the type."""
        return {}

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import PydanticCustomError, ValidationError, core_schema

        def ours(value: Any, parsed: Any) -> Any:
            wrong_type = None
            try:
                value = parsed(value)
            except ValidationError as error:
                wrong_type = error
            try:
                fit = self.check(value, "", LIMITS)
            except InvalidInput as refused:
                problem = {"problem": refused.problem}
                raise PydanticCustomError(REFUSED, "{problem}", problem) from None
            if wrong_type:
                raise wrong_type
            return fit

        return core_schema.no_info_wrap_validator_function(ours, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return handler(core) | self.schema()


REFUSED = "reasonbank"
"""pydantic's type for an error whose message is whole as it stands."""


class Text(Rule):
    """Text of at most ``most`` characters: a number, or the name of a limit."""

    strings = True

    def __init__(self, most: int | str, *, strip: bool = False, blank: bool = False) -> None:
        self.most, self.strip, self.blank = most, strip, blank

    def check(self, value: Any, name: str, limits: Limits) -> str:
        most = self.most if isinstance(self.most, int) else getattr(limits, self.most)
        return text(value, name, most, blank=self.blank, strip=self.strip)

    def schema(self) -> dict[str, Any]:
        return ({} if self.blank else {"minLength": 1}) | {"maxLength": _limit(self.most)}

    def __str__(self) -> str:
        return f"at most {_limit(self.most):,} characters"


class Id(Rule):
    strings = True

    def check(self, value: Any, name: str, limits: Limits) -> str:
        return parse_id(value, name)

    def schema(self) -> dict[str, Any]:
        return {"minLength": 32, "maxLength": 64}


class Number(Rule):
    def __init__(self, least: float, most: float = ENDLESS) -> None:
        self.least, self.most = least, most

    def check(self, value: Any, name: str, limits: Limits) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not self.least <= value <= self.most:
            raise InvalidInput(name, f"{_short(value)} is not a number {self}")
        return float(value)

    def schema(self) -> dict[str, Any]:
        return {"minimum": self.least} | ({"maximum": self.most} if self.most < ENDLESS else {})

    def __str__(self) -> str:
        return _range(self.least, self.most)


class Whole(Number):
    def check(self, value: Any, name: str, limits: Limits) -> int:
        return whole(value, name, least=self.least, most=self.most)


def _range(least: float, most: float) -> str:
    return f"from {least:,}" + (f" to {most:,}" if most < ENDLESS else " on")


SHARE = Number(0, 1)


class Flag(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> bool:
        if not isinstance(value, bool):
            raise InvalidInput(name, "must be true or false")
        return value

    def __str__(self) -> str:
        return "true or false"


class Choice(Rule):
    strings = True

    def __init__(self, kind: type[StrEnum]) -> None:
        self.kind = kind

    def check(self, value: Any, name: str, limits: Limits) -> StrEnum:
        return choice(self.kind, value, name)

    def read(self, value: Any, name: str) -> StrEnum:
        return choice(self.kind, value, name)

    def write(self, value: Any) -> str:
        return str(value)

    def schema(self) -> dict[str, Any]:
        return {"enum": [str(word) for word in self.kind]}


class OneOf(Rule):
    """One of some words, where an enum would be of no use to anybody."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, value: Any, name: str, limits: Limits) -> str:
        if value not in self.words:
            raise InvalidInput(name, _one_of(self.words, value))
        return str(value)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}

    def __str__(self) -> str:
        return " or ".join(filter(None, self.words))


class Moment(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> datetime:
        if not isinstance(value, datetime):
            raise InvalidInput(name, f"must be a time, got {type(value).__name__}")
        return value

    def read(self, value: Any, name: str) -> datetime:
        return moment(value, name)

    def write(self, value: Any) -> str:
        found: str = value.isoformat()
        return found


class Span(Rule):
    """The first and the last step of something."""

    def check(self, value: Any, name: str, limits: Limits) -> tuple[int, int]:
        return self.read(value, name)

    def read(self, value: Any, name: str) -> tuple[int, int]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise InvalidInput(name, "must be two numbers: the first and the last step")
        first, last = (whole(n, name, least=0, most=1_000_000_000) for n in value)
        if first > last:
            raise InvalidInput(name, f"begins at {first}, after its end at {last}")
        return first, last

    def write(self, value: Any) -> list[int]:
        return list(value)


class Many(Rule):
    """A list of what keeps ``each``; ``most`` is a number, or the name of a limit."""

    def __init__(
        self, each: Rule, most: int | str = ENDLESS, *, unique: bool = False, least: int = 0
    ) -> None:
        self.each, self.most, self.unique, self.least = each, most, unique, least

    def check(self, value: Any, name: str, limits: Limits) -> tuple[Any, ...]:
        self._list(value, name)
        if len(value) < self.least:
            raise InvalidInput(name, f"must have at least {self.least} (got {len(value)})")
        most = self.most if isinstance(self.most, int) else getattr(limits, self.most)
        if len(value) > most:
            raise InvalidInput(name, f"has {len(value):,} entries; at most {most:,} are allowed")
        check = self.each.check
        found = [check(item, name, limits) for item in value]
        fit = tuple(dict.fromkeys(found) if self.unique else found)
        same = len(fit) == len(value) and all(map(is_, fit, value))
        return value if same and isinstance(value, tuple) else fit

    def read(self, value: Any, name: str) -> tuple[Any, ...]:
        self._list(value, name)
        return tuple([self.each.read(item, name) for item in value])

    def write(self, value: Any) -> list[Any]:
        if type(self.each).write is Rule.write:
            return list(value)
        return [self.each.write(item) for item in value]

    def _list(self, value: Any, name: str) -> None:
        if not isinstance(value, list | tuple):
            raise InvalidInput(name, f"must be a list, got {type(value).__name__}")
        if self.each.strings:
            for item in value:
                if not isinstance(item, str):
                    kind = type(item).__name__
                    raise InvalidInput(name, f"must contain only strings (found {kind})")

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.each.strings:
            found["items"] = {"type": "string"} | self.each.schema()
        if self.least:
            found["minItems"] = self.least
        if (most := _limit(self.most)) < ENDLESS:
            found["maxItems"] = most
        return found


class Json(Rule):
    """An object that can be stored as JSON, and is nested no deeper than ``depth``."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def check(self, value: Any, name: str, limits: Limits) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidInput(name, "must be an object")
        _check_depth(value, name, self.depth)
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInput(name, f"cannot be stored as JSON: {error}") from None
        return value

    def write(self, value: Any) -> dict[str, Any]:
        return dict(value)


def _check_depth(value: Any, name: str, depth: int) -> None:
    if depth < 0:
        raise InvalidInput(name, "is nested too deeply")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_depth(item, f"{name}.{str(key)[:40]}", depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_depth(item, name, depth - 1)


class Nested(Rule):
    """Another dataclass, whose fields have rules of their own."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind

    def check(self, value: Any, name: str, limits: Limits) -> Any:
        return checked(self.read(value, name), limits, f"{name}.")

    def read(self, value: Any, name: str) -> Any:
        return value if isinstance(value, self.kind) else _read(self.kind, value, name)

    def write(self, value: Any) -> Any:
        return value.to_json() if hasattr(value, "to_json") else to_json(value)


@valueclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest of everything that a caller may send. Settings may lower the first few."""

    title: Annotated[int, Whole(1, 200), "The longest title, in characters."] = 200
    description: Annotated[int, Whole(1, 1_000), "The longest description."] = 1_000
    content: Annotated[int, Whole(1, 32_000), "The longest content."] = 32_000
    tags: Annotated[int, Whole(1, 32), "How many tags a memory may have."] = 32
    tag: Annotated[int, Whole(1, 64), "The longest tag."] = 64

    parents: ClassVar = 64
    label: ClassVar = 128
    error_type: ClassVar = 200
    error_text: ClassVar = 4_000
    stack_trace: ClassVar = 16_000
    comment: ClassVar = 2_000
    query: ClassVar = 32_000
    results: ClassVar = 100
    trace: ClassVar = 4_000_000
    steps: ClassVar = 10_000
    nesting: ClassVar = 16


LIMITS = Limits()


def _limit(most: int | str) -> int:
    return most if isinstance(most, int) else int(getattr(LIMITS, most))


class Ruled(NamedTuple):
    """A field of a dataclass: its rule, if it has one, and what its annotation says of it."""

    name: str
    rule: Rule | None
    optional: bool
    needed: bool
    meaning: str


@cache
def ruled(kind: Any) -> tuple[Ruled, ...]:
    # Annotations that are no text, as those of the settings, need not be evaluated: 3 ms at start.
    hints = {f.name: f.type for f in fields(kind)}
    if any(isinstance(hint, str) for hint in hints.values()):
        hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Ruled(
            f.name,
            *rule_of(hints[f.name]),
            f.default is MISSING and f.default_factory is MISSING,
            next((m for m in _metadata(hints[f.name]) if isinstance(m, str)), ""),
        )
        for f in fields(kind)
    )


def rule(kind: Any, name: str) -> Rule:
    """The rule of one field, for whoever takes that field from elsewhere."""
    return next(f.rule for f in ruled(kind) if f.name == name and f.rule is not None)


def _metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def rule_of(hint: Any) -> tuple[Rule | None, bool]:
    """The rule that an annotation says or implies, and whether None will do as well."""
    if get_origin(hint) in (Union, UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        return rule_of(parts[0])[0], len(parts) < len(get_args(hint))
    if get_origin(hint) is Annotated:
        said = next((m for m in _metadata(hint) if isinstance(m, Rule)), None)
        implied, optional = rule_of(get_args(hint)[0])
        return said or implied, optional
    if get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis:
        each = rule_of(get_args(hint)[0])[0] or Rule()
        if isinstance(each, Choice):
            return Many(each, len(each.kind), unique=True), False
        return Many(each), False
    if not isinstance(hint, type):
        return None, False
    if issubclass(hint, StrEnum):
        return Choice(hint), False
    if is_dataclass(hint):
        return Nested(hint), False
    plain: dict[type, Rule] = {datetime: Moment(), bool: Flag()}
    return plain.get(hint), False


def checked(value: T, limits: Limits = LIMITS, prefix: str = "") -> T:
    """``value`` made fit to be stored, or an error that names the first wrong field.

    What no rule for one field can say, a method ``check_together`` of the dataclass may.
    """
    kind: Any = value.__class__
    changes = {}
    for name, rule, optional in _checks(kind):
        held = getattr(value, name)
        if held is None and optional:
            continue
        fit = rule.check(held, prefix + name, limits)
        if fit is not held:
            changes[name] = fit
    fitting: T = value
    if changes:
        names, values, _ = _written(kind)
        fitting = kind(**dict(zip(names, values(value), strict=True)) | changes)
    if together := getattr(kind, "check_together", None):
        together(fitting)
    return fitting


@cache
def _checks(kind: Any) -> tuple[tuple[str, Rule, bool], ...]:
    return tuple((f.name, f.rule, f.optional) for f in ruled(kind) if f.rule is not None)


def from_json(kind: type[T], value: object) -> T:
    """The inverse of ``to_json``; unknown or missing fields are refused by name."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidInput(_named(kind), f"is not JSON: {str(value)[:80]!r}") from None
    found: T = _read(kind, value, "")
    return found


def _read(kind: Any, value: object, name: str, *, open: bool = False) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidInput(name or _named(kind), f"must be an object, got {type(value).__name__}")
    prefix = f"{name}." if name else ""
    if not open and (unknown := value.keys() - {f.name for f in ruled(kind)}):
        raise _unknown(kind, str(min(unknown, key=str)), prefix)
    found: dict[str, Any] = {}
    for f in ruled(kind):
        held = value.get(f.name)
        if held is not None:
            found[f.name] = held if f.rule is None else f.rule.read(held, prefix + f.name)
        elif f.needed and not (f.optional and f.name in value):
            raise InvalidInput(prefix + f.name, "is missing")
        elif f.name in value and not isinstance(f.rule, Many):
            found[f.name] = None
    return kind(**found)


def _unknown(kind: Any, name: str, prefix: str) -> InvalidInput:
    from difflib import get_close_matches  # Slow to load, and seldom needed.

    near = get_close_matches(name[:80], [f.name for f in ruled(kind)], 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return InvalidInput(prefix + name, f"is not a field of {_named(kind)}{meant}")


def check_payload(kind: type[Any], value: Mapping[str, Any]) -> None:
    """Refuses what ``kind`` could not have been made from; fields of a later version pass."""
    checked(_read(kind, value, "", open=True))


def _named(kind: type[Any]) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def to_json(value: Any) -> dict[str, Any]:
    """Each field of a dataclass as JSON has it; a search writes out hundreds."""
    names, values, writers = _written(value.__class__)
    result = dict(zip(names, values(value), strict=True))
    for name, write in writers:
        if (held := result[name]) is not None:
            result[name] = write(held)
    return result


_Writer = Callable[[Any], Any]


@cache
def _written(kind: Any) -> tuple[tuple[str, ...], _Writer, tuple[tuple[str, _Writer], ...]]:
    names = tuple(f.name for f in fields(kind))
    writers = tuple(
        (f.name, f.rule.write)
        for f in ruled(kind)
        if f.rule is not None and type(f.rule).write is not Rule.write
    )
    if len(names) == 1:
        # Of one name an attrgetter gives the value, not a tuple of it.
        return names, lambda value: (getattr(value, names[0]),), writers
    return names, attrgetter(*names), writers


def plain(value: Any) -> Any:
    """Any of our values as JSON."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, StrEnum) else value
