"""Two processes that call each other; what they say is plain data, or a number for a thing."""

from __future__ import annotations

import collections
import importlib
import json
import math
import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

LONGEST = 64 << 20
_EXACT = 1 << 53
_PLAIN = (type(None), bool, str)

# By name, so that a process that has none of them need not load what they are in.
_BY_TEXT: dict[str, tuple[str, Callable[[Any], str]]] = {
    "builtins.bytes": ("bytes", lambda value: value.hex()),
    "builtins.bytearray": ("bytearray", lambda value: value.hex()),
    "builtins.complex": ("complex", repr),
    "datetime.datetime": ("datetime", lambda value: value.isoformat()),
    "datetime.date": ("date", lambda value: value.isoformat()),
    "datetime.time": ("time", lambda value: value.isoformat()),
    "decimal.Decimal": ("decimal", str),
    "fractions.Fraction": ("fraction", str),
    "uuid.UUID": ("uuid", str),
    "pathlib.PosixPath": ("path", str),
    "pathlib.PurePosixPath": ("pure path", str),
}
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": complex,
    "datetime": lambda text: _module("datetime").datetime.fromisoformat(text),  # noqa: PLW0108
    "date": lambda text: _module("datetime").date.fromisoformat(text),  # noqa: PLW0108
    "time": lambda text: _module("datetime").time.fromisoformat(text),  # noqa: PLW0108
    "decimal": lambda text: _module("decimal").Decimal(text),
    "fraction": lambda text: _module("fractions").Fraction(text),
    "uuid": lambda text: _module("uuid").UUID(text),
    "path": lambda text: _module("pathlib").PosixPath(text),
    "pure path": lambda text: _module("pathlib").PurePosixPath(text),
    "int": lambda text: int(text, 16),
    "float": float,
}
_FROM_LIST: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "range": lambda parts: range(*parts),
    "slice": lambda parts: slice(*parts),
    "timedelta": lambda parts: _module("datetime").timedelta(*parts),
    "deque": lambda parts: collections.deque(parts[1:], parts[0]),
}
_FROM_PAIRS: dict[str, Callable[[list[Any]], Any]] = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "Counter": lambda pairs: collections.Counter(dict(pairs)),
}
_SINGLE = {"...": ..., "NotImplemented": NotImplemented}


class Ended(BaseException):
    """The other process is gone; no check may take that for an answer."""


class Peer:
    """One end of a line. ``handle`` answers what the other end asks."""

    def __init__(self, hear: int, say: int) -> None:
        self._hear, self._say = hear, say
        self._lock = threading.RLock()

    # What is said

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if -_EXACT < value < _EXACT else ["int", hex(value)]
        if kind is float:
            return value if math.isfinite(value) else ["float", repr(value)]
        if (by_text := _BY_TEXT.get(_name(kind))) is not None:
            return [by_text[0], by_text[1](value)]
        if kind in (list, tuple, set, frozenset):
            return [kind.__name__, [self.encode(item) for item in value]]
        if kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
            name = "dict" if kind is collections.defaultdict else kind.__name__
            return [name, [[self.encode(k), self.encode(v)] for k, v in value.items()]]
        if (parts := _parts(value)) is not None:
            return [kind.__name__, [self.encode(part) for part in parts]]
        if value is ... or value is NotImplemented:
            return ["single", "..." if value is ... else "NotImplemented"]
        return self.refer(value)

    def decode(self, said: Any) -> Any:
        if not isinstance(said, list):
            return said
        name, given = said[0], said[1]
        if name in _FROM_TEXT:
            return _FROM_TEXT[name](given)
        if name in _FROM_LIST:
            return _FROM_LIST[name]([self.decode(item) for item in given])
        if name in _FROM_PAIRS:
            return _FROM_PAIRS[name]([(self.decode(k), self.decode(v)) for k, v in given])
        if name == "single":
            return _SINGLE[given]
        return self.referred(name, *said[1:])

    def refer(self, value: Any) -> Any:
        """How a thing that is no data is named."""
        raise NotImplementedError

    def referred(self, name: str, *given: Any) -> Any:
        raise NotImplementedError

    def handle(self, asked: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    # The line

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Ask, answering what the other end asks meanwhile."""
        with self._lock:
            self._send(asked)
            while True:
                said = self._receive()
                if "do" not in said:
                    return said
                self._send(self.handle(said))

    def serve(self) -> None:
        while True:
            try:
                asked = self._receive()
            except Ended:
                return
            self._send(self.handle(asked))

    def _send(self, what: dict[str, Any]) -> None:
        content = json.dumps(what).encode()
        content = struct.pack("!I", len(content)) + content
        try:
            while content:
                content = content[os.write(self._say, content) :]
        except OSError:
            raise Ended("the solution ended its own process") from None

    def _receive(self) -> dict[str, Any]:
        (size,) = struct.unpack("!I", self._exactly(4))
        if size > LONGEST:
            raise Ended("the solution answered with more than can be read")
        said = json.loads(self._exactly(size))
        if not isinstance(said, dict):
            raise Ended("the solution answered with something else than was asked")
        return said

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self._hear, min(size, 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise Ended("the solution ended its own process")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def exact(value: Any, bases: tuple[Any, ...]) -> Any:
    """What a value of a class made from one of these is as one of these."""
    for base in bases:
        if isinstance(value, base):
            return base.__str__(value) if base is str else base(value)
    return None


def standard(module: str | None) -> bool:
    return (module or "").partition(".")[0] in sys.stdlib_module_names


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _name(kind: type) -> str:
    """The full name of a class that is really there under it."""
    found = getattr(sys.modules.get(kind.__module__), kind.__name__, None)
    return f"{kind.__module__}.{kind.__name__}" if found is kind else ""


def _parts(value: Any) -> list[Any] | None:
    kind = type(value)
    if kind in (range, slice):
        return [value.start, value.stop, value.step]
    if _name(kind) == "datetime.timedelta":
        return [value.days, value.seconds, value.microseconds]
    if kind is collections.deque:
        return [value.maxlen, *value]
    return None
