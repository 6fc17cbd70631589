"""The process that the checks run in: to them the solution's modules look like modules.

A value that the solution answers with is data, made anew here, or stands for a thing in the
other process. Such a thing is never equal to data and cannot be told what it is compared with:
else it would only have to say yes.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from .wire import Ended, Peer, exact, standard

_INPUT = builtins.input
_COMPARING = {"__lt__", "__le__", "__gt__", "__ge__", "__add__", "__radd__", "__sub__", "__rsub__"}
_FORWARDED = _COMPARING | {
    f"__{name}__"
    for name in (
        "len", "getitem", "setitem", "delitem", "iter", "next", "reversed", "contains", "call",
        "bool", "str", "repr", "format", "hash", "enter", "exit", "mul", "rmul", "matmul",
        "rmatmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow",
        "and", "or", "xor", "rand", "ror", "rxor", "lshift", "rshift", "iadd", "isub", "imul",
        "neg", "pos", "abs", "invert", "int", "float", "index", "complex", "round", "trunc",
        "floor", "ceil", "length_hint", "missing",
    )
}  # fmt: skip
_WAITING = {"__aenter__", "__aexit__", "__anext__"}
_SHOWN = {"__str__", "__repr__", "__format__"}
_HIDDEN = (types.ModuleType, types.FrameType, types.CodeType, types.TracebackType)
_STEERING = ("pytest", "test", "setup", "teardown", "load_tests")
"""Names by which a module of tests is steered; `import *` does not take them from a solution."""
_NO_ERRORS_OF = {"unittest", "bdb", "doctest", "pdb", "_pytest"}
"""Theirs say that a test is to be left out."""


class Thing:
    """Stands for an object of the solution."""

    _far: int

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__" or name == "_far":
            raise AttributeError(name)
        return _near().get(self._far, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:2] == "__":
            return object.__setattr__(self, name, value)
        _near().said({"do": "set", "thing": self._far, "name": name, "given": [value]})

    def __delattr__(self, name: str) -> None:
        _near().said({"do": "delete", "thing": self._far, "name": name})

    def __dir__(self) -> Any:
        return _near().said({"do": "names", "thing": self._far})

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if not isinstance(other, Thing):
            # An object of the checks may know how to compare; data never asks the solution.
            return NotImplemented if type(other).__module__ != "builtins" else False
        same = {"do": "special", "thing": self._far, "name": "__eq__", "given": [other]}
        return _near().said(same) is True

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(("far", self._far))

    def __await__(self) -> Any:
        yield from ()
        return _near().said({"do": "wait", "thing": self._far})


class Kind(type):
    """The class of what stands for a class of the solution."""

    _far: int

    def __call__(cls, *given: Any, **named: Any) -> Any:
        return _near().call(cls._far, given, named)

    def __getattr__(cls, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return _near().get(cls._far, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        _near().said({"do": "set", "thing": cls._far, "name": name, "given": [value]})

    def __bool__(cls) -> bool:
        return True

    def __iter__(cls) -> Any:
        return _near().said({"do": "special", "thing": cls._far, "name": "__iter__"})

    def __len__(cls) -> Any:
        return _near().said({"do": "special", "thing": cls._far, "name": "__len__"})

    def __getitem__(cls, key: Any) -> Any:
        what = {"do": "special", "thing": cls._far, "name": "__getitem__", "given": [key]}
        return _near().said(what)

    def __contains__(cls, item: Any) -> bool:
        return any(one is item for one in cls)


class Module(types.ModuleType):
    _far: int

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return _near().get(self._far, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:2] == "__" or isinstance(value, types.ModuleType) or name == "_far":
            super().__setattr__(name, value)
        else:
            _near().said({"do": "set", "thing": self._far, "name": name, "given": [value]})

    def __delattr__(self, name: str) -> None:
        _near().said({"do": "delete", "thing": self._far, "name": name})


class NearSide(Peer):
    def __init__(self, hear: int, say: int) -> None:
        super().__init__(hear, say)
        self._known: dict[int, Any] = {}
        self._lent: list[Any] = []
        self._errors: list[BaseException] = []
        self._shared: dict[str, Any] = {}
        self.ended = False

    # Asking

    def said(self, asked: dict[str, Any]) -> Any:
        """The answer as it is here; what the solution raised is raised."""
        given = list(asked.get("given", ()))
        message = {**asked, **self._news(), "given": [self.encode(value) for value in given]}
        if "named" in asked:
            message["named"] = {k: self.encode(v) for k, v in asked["named"].items()}
        try:
            answer = self.ask(message)
        except Ended:
            self.ended = True
            raise
        for number, text in answer.get("printed", ()):
            (sys.stderr if number == 2 else sys.stdout).write(str(text))
        for place, now in answer.get("after", {}).items():
            _replace(given[int(place)], self.decode(now))
        if "error" in answer:
            raise self._error(answer["error"])
        return self.decode(answer["is"])

    def call(self, thing: int, given: Sequence[Any], named: dict[str, Any], **more: Any) -> Any:
        return self.said({"do": "call", "thing": thing, "given": given, "named": named, **more})

    def get(self, thing: int, name: str) -> Any:
        return self.said({"do": "get", "thing": thing, "name": name})

    def _news(self) -> dict[str, Any]:
        now = {"place": os.getcwd(), "words": list(sys.argv), "environment": dict(os.environ)}
        news = {name: value for name, value in now.items() if self._shared.get(name) != value}
        self._shared = now
        return news

    # What the solution asks

    def handle(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"is": self.encode(self._done(asked))}
        except BaseException as error:  # noqa: BLE001 - it is the solution's to catch.
            self._errors.append(error)
            kinds = (k for k in type(error).__mro__ if getattr(builtins, k.__name__, 0) is k)
            known = next(kinds, Exception)
            given = [value for value in error.args if isinstance(value, str | int | float)]
            return {"error": {"type": known.__name__, "number": len(self._errors) - 1,
                              "given": [self.encode(value) for value in given]}}  # fmt: skip

    def _done(self, asked: dict[str, Any]) -> Any:
        what = asked["do"]
        if what == "input":
            return _line_of_input()
        thing = self._lent[asked["thing"]]
        given = [self.decode(value) for value in asked.get("given", ())]
        if what == "call":
            return thing(*given, **{k: self.decode(v) for k, v in asked.get("named", {}).items()})
        name = asked["name"]
        if what == "get" and name[:1] != "_":
            return getattr(thing, name)
        if what == "special" and name in ("__iter__", "__next__", "__len__", "__getitem__",
                                          "__str__"):  # fmt: skip
            return getattr(type(thing), name)(thing, *given)
        raise PermissionError(f"{what} {name} is not for the solution")

    # Things

    def refer(self, value: Any) -> Any:
        if isinstance(value, Thing | Module) or isinstance(type(value), Kind):
            return ["far", object.__getattribute__(value, "_far")]
        if isinstance(value, Kind):
            return ["far", type.__getattribute__(value, "_far")]
        if isinstance(value, types.FunctionType) and "_far" in vars(value):
            return ["far", vars(value)["_far"]]
        if isinstance(value, types.TracebackType):
            return None
        if isinstance(value, _HIDDEN):
            raise TypeError(f"a {type(value).__name__} is not given to a solution")
        if isinstance(value, BaseException):
            self._errors.append(value)
            return ["error", {"type": type(value).__name__, "number": len(self._errors) - 1,
                              "given": [self.encode(one) for one in value.args]}]  # fmt: skip
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, type | types.BuiltinFunctionType | types.FunctionType) and (
            standard(module) and name and "<" not in name
        ):
            return ["type", module, name]
        if (plain := exact(value, (int, float, str, bytes, tuple, list, dict, set))) is not None:
            return self.encode(plain)
        self._lent.append(value)
        return ["near", len(self._lent) - 1, {}]

    def referred(self, name: str, *given: Any) -> Any:
        if name == "near":
            return self._lent[given[0]]
        if name == "type":
            return self._type(*given)
        if name != "far":
            raise ValueError(f"a solution answered with {name!r}")
        number = given[0]
        if number not in self._known:
            self._known[number] = self._made(number, given[1])
        return self._known[number]

    def _type(self, module: str, name: str, thing: Any = None) -> Any:
        if module == "builtins" and isinstance(found := getattr(builtins, name, None), type):
            return found
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names and top not in _NO_ERRORS_OF and module in sys.modules:
            found = getattr(sys.modules[module], name.partition(".")[0], None)
            if isinstance(found, type) and issubclass(found, Exception):
                return found
        return Thing if thing is None else self.decode(thing)

    def _made(self, number: int, told: dict[str, Any]) -> Any:
        kind = told["kind"]
        if kind == "module":
            module = Module(told["name"])
            module._far = number
            module.__all__ = [n for n in told["names"] if not n.lower().startswith(_STEERING)]
            return module
        if kind == "function":
            return _function(number, told)
        if kind == "class":
            return self._class(number, told)
        return self._object(number, self.decode(told["class"]), told)

    def _class(self, number: int, told: dict[str, Any]) -> Any:
        bases = [base for base in map(self.decode, told["bases"]) if _can_be_base(base)]
        plain = any(issubclass(base, int | float | str | bytes | tuple) for base in bases)
        offered = set(told["special"]) & (_SHOWN if plain else _FORWARDED)
        methods: dict[str, Any] = {name: _special(name) for name in offered}
        methods |= {name: _special(name, wait=True) for name in set(told["special"]) & _WAITING}
        if "__aiter__" in told["special"]:
            methods["__aiter__"] = lambda self: self
        if plain:
            # What it is as a value decides; the value came as data.
            value = next(b for b in bases if issubclass(b, int | float | str | bytes | tuple))
            methods |= {"__eq__": value.__eq__, "__ne__": value.__ne__, "__hash__": value.__hash__}
        parents = tuple(bases) if any(issubclass(b, Thing) for b in bases) else (Thing, *bases)
        try:
            made = Kind(told["name"], parents, methods)
        except TypeError:
            made = Kind(told["name"], (Thing,), methods)
        type.__setattr__(made, "_far", number)
        return made

    def _object(self, number: int, kind: Any, told: dict[str, Any]) -> Any:
        if not isinstance(kind, Kind):
            kind = Kind(kind.__name__, (Thing,), {n: _special(n) for n in _ITERATING})
        if "value" in told and not issubclass(kind, BaseException):
            value = self.decode(told["value"])
            made = kind.__new__(kind, value) if issubclass(kind, type(value)) else value
            if made is value:
                return value
        else:
            made = kind.__new__(kind)
        object.__setattr__(made, "_far", number)
        return made

    def _error(self, told: dict[str, Any]) -> BaseException:
        error: Any
        if told["near"] is not None:
            error = self._errors[int(told["near"])]
            if type(error).__module__.partition(".")[0] not in _NO_ERRORS_OF:
                return error  # type: ignore[no-any-return]
        kind: Any = self.decode(told["type"])
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            kind = Exception
        given = [self.decode(value) for value in told["given"]]
        if isinstance(kind, Kind):
            new: Any = kind.__new__
            error = new(kind, *given)
            BaseException.args.__set__(error, tuple(given))  # type: ignore[attr-defined]
            object.__setattr__(error, "_far", told["thing"][1])
        else:
            try:
                error = kind(*given)
            except TypeError:
                error = kind.__new__(kind, *given)
        for name, value in told["values"].items():
            if not name.startswith("_"):
                _set(error, name, self.decode(value))
        _set(error, "_by_solution", True)
        found: BaseException = error
        found.add_note("In the solution:\n" + told["text"])
        return found


_ITERATING = ("__iter__", "__next__", "__str__", "__repr__", "__len__", "__getitem__", "__call__")


def _set(error: BaseException, name: str, value: Any) -> None:
    try:
        object.__setattr__(error, name, value)
    except AttributeError:
        return  # One that cannot be set is derived from the others.


def _can_be_base(base: Any) -> bool:
    if not isinstance(base, type):
        return False
    return issubclass(base, Thing | BaseException) or base in (int, float, str, bytes, tuple)


def _special(name: str, *, wait: bool = False) -> Callable[..., Any]:
    def forwarded(self: Any, *given: Any) -> Any:
        if name in _COMPARING and not isinstance(given[0], Thing):
            return NotImplemented
        return _near().said({"do": "special", "thing": self._far, "name": name, "given": given})

    async def awaited(self: Any, *given: Any) -> Any:
        what = {"do": "special", "thing": self._far, "name": name, "given": given, "wait": True}
        return _near().said(what)

    return awaited if wait else forwarded


def _function(number: int, told: dict[str, Any]) -> Any:
    def function(*given: Any, **named: Any) -> Any:
        return _near().call(number, given, named)

    async def waiting(*given: Any, **named: Any) -> Any:
        return _near().call(number, given, named, wait=True)

    made: Any = waiting if told["waits"] else function
    made.__name__ = made.__qualname__ = str(told["name"])
    made.__doc__, made._far = told["about"], number
    if told["parameters"] is not None:
        import inspect

        made.__signature__ = inspect.Signature(
            [
                inspect.Parameter(name, inspect._ParameterKind(kind),
                                  default=... if optional else inspect.Parameter.empty)
                for name, kind, optional in told["parameters"]
            ]
        )  # fmt: skip
    return made


def _replace(value: Any, now: Any) -> None:
    """What the solution did to a list that it was given is done to the list."""
    if type(value) is not type(now):
        return
    if isinstance(value, dict | set):
        value.clear()
        value.update(now)
    elif isinstance(value, list | bytearray):
        value[:] = now


def _line_of_input() -> str:
    if builtins.input is _INPUT:
        return sys.stdin.readline()
    try:
        return f"{builtins.input()}\n"
    except EOFError:
        return ""


# The solution's modules

_sides: list[NearSide] = []


def _near() -> NearSide:
    return _sides[0]


def ended_early() -> bool:
    return any(side.ended for side in _sides)


class OwnFiles(importlib.machinery.FileFinder):
    """Of the task's folder only the verifier's modules are loaded into this process."""

    own: frozenset[str] = frozenset()

    def find_spec(self, fullname: str, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        spec = super().find_spec(fullname, target)
        if spec is None or spec.origin in self.own:
            return spec if spec is None or spec.loader is not None else self._folder(spec)
        return self._folder(spec) if spec.loader is None else None

    def _folder(
        self, spec: importlib.machinery.ModuleSpec
    ) -> importlib.machinery.ModuleSpec | None:
        places = tuple(f"{place}/" for place in spec.submodule_search_locations or ())
        return spec if any(path.startswith(places) for path in self.own) else None


class FarModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: a solution cannot take the name of a module that is there already."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        place = os.path.join(self._folder, *fullname.split("."))
        if not (os.path.isfile(f"{place}.py") or os.path.isdir(place)):
            return None
        package = os.path.isdir(place)
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=package)
        if package:
            spec.submodule_search_locations = [place]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _near().said({"do": "import", "name": spec.name})  # type: ignore[no-any-return]

    def exec_module(self, module: types.ModuleType) -> None:
        """It has been, in the other process."""


def install(folder: str, own: Sequence[str], hear: int, say: int) -> None:
    """From here on `import` finds the checks' modules here and the solution's over there."""
    _sides.append(NearSide(hear, say))
    OwnFiles.own = frozenset(os.path.join(folder, name) for name in own)
    sources = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)

    def own_files(path: str) -> OwnFiles:
        if path != folder and not path.startswith(f"{folder}/"):
            raise ImportError(path)
        return OwnFiles(path, sources)

    sys.path_hooks.insert(0, own_files)
    sys.path_importer_cache.clear()
    sys.meta_path.append(FarModules(folder))
