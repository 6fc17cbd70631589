"""The process that the solution runs in: it does what the checks ask, and says what came of it."""

from __future__ import annotations

import builtins
import importlib
import io
import os
import sys
import types
from typing import Any

from .wire import Peer, exact, standard

WAITS = 0x80
"""The flag of a function that was written as `async def`."""
_VALUES = (int, float, str, bytes, tuple)
_MUTABLE = (list, dict, set, bytearray)


class Far(Peer):
    """Keeps every thing that it has named: its number stays its own."""

    def __init__(self, hear: int, say: int) -> None:
        super().__init__(hear, say)
        self._things: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._told: set[int] = set()
        self.printed: list[tuple[int, str]] = []
        self._loop: Any = None

    def refer(self, value: Any) -> Any:
        if isinstance(value, Near):
            return ["near", value._near]
        kind: Any = value
        if isinstance(kind, type) and getattr(builtins, kind.__name__, None) is value:
            return ["type", "builtins", kind.__name__]
        if isinstance(value, type) and standard(value.__module__):
            return ["type", value.__module__, value.__qualname__, self._thing(value)]
        return self._thing(value)

    def _thing(self, value: Any) -> Any:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._things)
            self._things.append(value)
        if number in self._told:
            return ["far", number]
        self._told.add(number)
        return ["far", number, self._described(value)]

    def _described(self, value: Any) -> dict[str, Any]:
        if isinstance(value, types.ModuleType):
            names = getattr(value, "__all__", None) or [n for n in vars(value) if n[:1] != "_"]
            return {"kind": "module", "name": value.__name__, "names": [str(n) for n in names],
                    "package": hasattr(value, "__path__")}  # fmt: skip
        if isinstance(value, type):
            bases = [self.encode(base) for base in value.__bases__ if base is not object]
            own = [name for name in dir(value) if name[:2] == "__" and name[-2:] == "__"
                   and getattr(value, name, None) is not getattr(object, name, None)]  # fmt: skip
            return {"kind": "class", "name": value.__name__, "bases": bases, "special": own}
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
            return {"kind": "function", "name": getattr(value, "__name__", "function"),
                    "about": value.__doc__ if isinstance(value.__doc__, str) else None,
                    "waits": bool(getattr(getattr(value, "__code__", None), "co_flags", 0) & WAITS),
                    "parameters": _parameters(value)}  # fmt: skip
        told: dict[str, Any] = {"kind": "object", "class": self.encode(type(value))}
        if (value := exact(value, _VALUES)) is not None:
            told["value"] = self.encode(value)
        return told

    def referred(self, name: str, *given: Any) -> Any:
        if name == "far":
            return self._things[given[0]]
        if name == "near":
            return Near(self, given[0], given[1])
        if name == "type":
            found: Any = importlib.import_module(given[0])
            for part in given[1].split("."):
                found = getattr(found, part)
            return found
        if name == "error":
            return self._error(given[0])
        raise ValueError(f"there is no {name!r}")

    def _error(self, told: dict[str, Any]) -> BaseException:
        kind = getattr(builtins, told["type"], Exception)
        given = [self.decode(value) for value in told["given"]]
        try:
            error: BaseException = kind(*given)
        except TypeError:
            error = Exception(*given)
        error._near_error = told["number"]  # type: ignore[attr-defined]
        return error

    def handle(self, asked: dict[str, Any]) -> dict[str, Any]:
        given: list[Any] = []
        before: list[Any] = []
        try:
            _follow(asked)
            given = [self.decode(value) for value in asked.get("given", ())]
            named = {name: self.decode(value) for name, value in asked.get("named", {}).items()}
            before = [asked["given"][n] for n in range(len(given))]
            answer = {"is": self.encode(self._done(asked, given, named))}
        except BaseException as error:  # noqa: BLE001 - whatever it is, the checks hear of it.
            answer = {"error": self._told_of(error)}
        answer["after"] = self._changed(given, before)
        answer["printed"] = self.printed[:]
        self.printed.clear()
        return answer

    def _changed(self, given: list[Any], before: list[Any]) -> dict[str, Any]:
        """What was given and can be changed, as it is now."""
        changed = {}
        for n, value in enumerate(given):
            if type(value) in _MUTABLE and (now := self.encode(value)) != before[n]:
                changed[str(n)] = now
        return changed

    def _done(self, asked: dict[str, Any], given: list[Any], named: dict[str, Any]) -> Any:
        what = asked["do"]
        if what == "import":
            return importlib.import_module(asked["name"])
        thing = self._things[asked["thing"]]
        if what == "call":
            result = thing(*given, **named)
            return self._waited(result) if asked.get("wait") else result
        if what == "get":
            return getattr(thing, asked["name"])
        if what == "set":
            return setattr(thing, asked["name"], given[0])
        if what == "delete":
            return delattr(thing, asked["name"])
        if what == "names":
            return dir(thing)
        if what == "special":
            result = getattr(type(thing), asked["name"])(thing, *given)
            return self._waited(result) if asked.get("wait") else result
        if what == "wait":
            return self._waited(thing)
        raise ValueError(f"nobody knows how to {what!r}")

    def _waited(self, result: Any) -> Any:
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()

        async def wait() -> Any:
            return await result

        return self._loop.run_until_complete(wait())

    def _told_of(self, error: BaseException) -> dict[str, Any]:
        import traceback

        values = {}
        for name, value in vars(error).items():
            if isinstance(value, str | int | float | bool | list | tuple | dict | None):
                values[name] = self.encode(value)
        return {
            "type": self.encode(type(error)),
            "thing": self._thing(error),
            "given": [self.encode(value) for value in error.args],
            "values": values,
            "near": getattr(error, "_near_error", None),
            "text": "".join(traceback.format_exception(error)),
            "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
        }


class Near:
    """A thing of the checks: to be called, asked for what is public, or gone through."""

    def __init__(self, far: Far, number: int, kind: dict[str, Any]) -> None:
        self._far = far
        self._near = number
        self._kind = kind

    def _ask(self, what: str, **more: Any) -> Any:
        answer = self._far.ask({"do": what, "thing": self._near, **more})
        if "error" in answer:
            raise self._far.decode(["error", answer["error"]])
        return self._far.decode(answer["is"])

    def __call__(self, *given: Any, **named: Any) -> Any:
        encode = self._far.encode
        return self._ask("call", given=[encode(value) for value in given],
                         named={name: encode(value) for name, value in named.items()})  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name[:1] == "_":
            raise AttributeError(name)
        return self._ask("get", name=name)

    def __iter__(self) -> Any:
        return self._ask("special", name="__iter__", given=[])

    def __next__(self) -> Any:
        return self._ask("special", name="__next__", given=[])

    def __len__(self) -> Any:
        return self._ask("special", name="__len__", given=[])

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        return self._ask("special", name="__getitem__", given=[self._far.encode(key)])

    def __str__(self) -> Any:
        return self._ask("special", name="__str__", given=[])


class Printed(io.TextIOBase):
    """Standard output, which the checks may be listening to."""

    def __init__(self, far: Far, number: int) -> None:
        self._far, self._number = far, number

    def write(self, text: str) -> int:
        self._far.printed.append((self._number, text))
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number


class Read(io.TextIOBase):
    """Standard input, as the checks have it."""

    def __init__(self, far: Far) -> None:
        self._far = far

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        return str(self._far.ask({"do": "input"}).get("is", ""))

    def read(self, size: int | None = -1) -> str:
        return "".join(iter(self.readline, ""))

    def readable(self) -> bool:
        return True


def _parameters(function: Any) -> list[Any] | None:
    import inspect

    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[p.name, int(p.kind), p.default is not p.empty] for p in known]


def _follow(asked: dict[str, Any]) -> None:
    """Where the checks are, and what they have set."""
    if "place" in asked and os.path.isdir(asked["place"]):
        os.chdir(asked["place"])
    if "words" in asked:
        sys.argv = asked["words"]
    if "environment" in asked:
        os.environ.clear()
        os.environ.update(asked["environment"])


def serve(hear: int, say: int, folder: str) -> None:
    far = Far(hear, say)
    sys.path.append(folder)
    sys.stdout, sys.stderr = Printed(far, 1), Printed(far, 2)
    sys.stdin = Read(far)

    def asked(prompt: object = "") -> str:
        sys.stdout.write(str(prompt))
        line = sys.stdin.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.rstrip("\n")

    builtins.input = asked
    far.serve()
