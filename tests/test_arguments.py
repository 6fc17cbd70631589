"""Whatever is handed to a method of ``Bank``: what is of a wrong type is refused by name."""

from __future__ import annotations

import datetime
import inspect
import io
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest

from reasonbank import Bank, Filter, InvalidInput, Memory, Step, Trace
from reasonbank.arguments import parameter_types
from reasonbank.embed.hashed import Hashed
from reasonbank.llm.scripted import Scripted
from reasonbank.model import REVISABLE, new_id
from reasonbank.testing.builders import a_memory, a_trace


class Thing:
    """Has no method and no attribute that anybody asks for."""


VALUES = {
    "a number": 5,
    "a fraction": -1.5,
    "not a number": float("nan"),
    "true": True,
    "text": "text",
    "bytes": b"bytes",
    "an empty dict": {},
    "a dict": {"title": 1},
    "an empty list": [],
    "a list": [1],
    "a set": {1},
    "a tuple": (1, 2),
    "a time": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "an object": object(),
    "a thing": Thing(),
    "a class": Thing,
    "the class Memory": Memory,
    "the class of an embedder": Hashed,
    "a memory": a_memory(),
    "a trace": a_trace(),
    "a step": Step(iteration=1, action="think"),
    "a filter": Filter(),
    "a path": pathlib.Path("/somewhere"),
    "a binary file": io.BytesIO(b"{}"),
    "a function": len,
    "none": None,
}
FUNCTIONS = {"a function", "a class", "the class Memory", "the class of an embedder"}
RIGHT: dict[Any, set[str]] = {
    type(None): {"none"},
    bool: {"true"},
    int: {"a number"},
    float: {"a number"},
    str: {"text"},
    os.PathLike: {"a path"},
    Mapping: {"an empty dict", "a dict"},
    tuple: {"an empty list"},
    Callable: FUNCTIONS,
    Memory: {"a memory"},
    Trace: {"a trace"},
    Filter: {"a filter"},
}
"""Which of the values a type takes; none of them, if it is not here."""
LOADED_LATE = {"model": set(), "verify": {"text"}, "effort": set(), "on_progress": FUNCTIONS}
MUST: dict[str, Any] = {
    "answer": {}, "helpful": True, "id": new_id(), "kept": True, "memory": a_memory(),
    "name": "name", "older_than_days": 1, "path": "/path", "query": "query", "question": "what",
    "session": "session", "source": new_id(), "succeeded": True, "target": new_id(),
    "task": "task", "ticket": "ticket", "trace": a_trace(), "type": "similar",
    "workspace": "/workspace",
}  # fmt: skip
"""Something right for every parameter without a default."""


def methods() -> list[str]:
    return [name for name, _ in inspect.getmembers(Bank, callable) if not name.startswith("_")]


def parameters(name: str) -> dict[str, tuple[Any, bool]]:
    """The types of what a method takes, and whether it must be given."""
    method = inspect.unwrap(getattr(getattr(Bank, name), "__func__", getattr(Bank, name)))
    hints = parameter_types(method, unknown=Any)
    known = inspect.signature(method).parameters
    return {
        each: (hint, known[each].default is inspect.Parameter.empty)
        for each, hint in hints.items()
        if known[each].kind is not inspect.Parameter.VAR_KEYWORD
    }


def taken(name: str, hint: Any) -> set[str]:
    if name in LOADED_LATE:
        return LOADED_LATE[name] | {"none"}
    if get_origin(hint) is Annotated:
        return taken(name, get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return set().union(*(taken(name, part) for part in get_args(hint)))
    kind = get_origin(hint) or hint
    a_word = isinstance(kind, type) and issubclass(kind, StrEnum)
    return RIGHT.get(kind, {"text"} if a_word else set())


def stored(bank: Bank) -> list[Any]:
    db = bank.store.ledger.db
    return [db.all(f"select count(*) from {table}") for table in ("events", "jobs", "tokens")]


@pytest.mark.parametrize("name", methods())
def test_a_value_of_a_wrong_type_is_refused_by_name_and_changes_nothing(
    plain_bank: Bank, name: str
) -> None:
    before = stored(plain_bank)
    known = parameters(name)
    must = {each: MUST.get(each) for each, (_, needed) in known.items() if needed}
    must |= {"session": a_trace()} if name == "distil" else {}
    must |= {"answer": "answer"} if name == "capture" else {}
    must |= {"file": io.StringIO()} if "file" in known else {}
    must |= {"file": "/nowhere/backup"} if name == "backup" else {}
    must |= {"model": Scripted([])} if name == "solve" else {}
    for each, (hint, _) in known.items():
        for label in sorted(VALUES.keys() - taken(each, hint)):
            with pytest.raises(InvalidInput) as refused:
                getattr(plain_bank, name)(**must | {each: VALUES[label]})
            assert refused.value.field == each, label
    assert stored(plain_bank) == before
    plain_bank.record(a_memory())


@pytest.mark.parametrize("name", ["search", "record", "within", "distil", "memories", "link"])
def test_what_is_handed_over_in_order_is_checked_as_well(plain_bank: Bank, name: str) -> None:
    with pytest.raises(InvalidInput):
        getattr(plain_bank, name)(*[5] * (2 if name == "link" else 1), **_rest(name))


def _rest(name: str) -> dict[str, Any]:
    return {"type": "similar"} if name == "link" else {}


def refusal(call: Any, *args: Any, **options: Any) -> InvalidInput | None:
    """Any other error is one too many."""
    try:
        call(*args, **options)
    except InvalidInput as refused:
        return refused
    return None


@pytest.mark.parametrize("kind", [Memory, Trace, Filter, Step])
def test_a_wrong_value_in_a_field_is_refused_by_the_name_of_the_field(
    plain_bank: Bank, kind: type[Any]
) -> None:
    hand_over: dict[type[Any], Callable[[Any], object]] = {
        Memory: plain_bank.record,
        Trace: plain_bank.distil,
        Filter: plain_bank.memories,
        Step: lambda step: plain_bank.store_trace(a_trace(trajectory=(step,))),
    }
    whole = {Memory: a_memory, Trace: a_trace, Filter: Filter, Step: lambda: VALUES["a step"]}
    for field in fields(kind):
        for label, value in VALUES.items():
            before = stored(plain_bank)
            thing = whole[kind]()
            if field.name != "id" and kind in (Memory, Trace):
                thing = replace(thing, id=new_id())
            refused = refusal(hand_over[kind], replace(thing, **{field.name: value}))
            if refused is not None:
                assert field.name in refused.field, label
                assert stored(plain_bank) == before


def test_a_change_of_a_wrong_type_is_refused_by_the_name_of_the_field(plain_bank: Bank) -> None:
    id = plain_bank.record(a_memory()).id
    for name in REVISABLE:
        for label, value in VALUES.items():
            before = stored(plain_bank)
            refused = refusal(plain_bank.update, id, **{name: value})
            if refused is not None:
                assert refused.field.startswith(name), label
                assert stored(plain_bank) == before


def test_files_that_cannot_be_used_are_refused_before_anything_is_written(
    plain_bank: Bank, tmp_path: pathlib.Path
) -> None:
    closed = io.StringIO()
    closed.close()
    there = tmp_path / "file"
    there.write_text("", encoding="utf-8")
    with there.open(encoding="utf-8") as only_to_read, there.open("rb") as binary:
        for file in (closed, only_to_read, binary):
            with pytest.raises(InvalidInput, match="file"):
                plain_bank.export(file)
    with there.open("a", encoding="utf-8") as only_to_write, tempfile.TemporaryFile() as binary:
        for file in (closed, only_to_write, binary):
            with pytest.raises(InvalidInput, match="file"):
                plain_bank.import_(file)


def test_what_only_behaves_like_the_right_thing_is_right(plain_bank: Bank, open_bank: Any) -> None:
    class Lines:
        def __init__(self) -> None:
            self.said: list[str] = []

        def write(self, text: str) -> None:
            self.said.append(text)

    class Folder:
        def __fspath__(self) -> str:
            return "/folder"

    class Wrapped:
        def __init__(self, embedder: Any) -> None:
            self._embedder = embedder

        def __getattr__(self, name: str) -> Any:
            return getattr(self._embedder, name)

    lines = Lines()
    plain_bank.export(lines)
    assert lines.said
    assert plain_bank.within(Folder()).context.path == "/folder"
    assert open_bank("other", embedder=Wrapped(Hashed())).record(a_memory())
