"""Whatever a caller sends, the answer is an error that names the field, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fault_tools import a_memory, exported, log_length, open_bank
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.errors import InvalidInput, NotFound, ReasonBankError, Refused
from reasonbank.ledger.port import Filter
from reasonbank.model import ErrorContext, Memory, Outcome, Step, Trace

UNKNOWN = "01900000-0000-7000-8000-00000000ffff"


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = {"deeper": value}
    return value


def error(**known: Any) -> ErrorContext:
    return ErrorContext(
        **{"error_type": "E", "failure_pattern": "P", "corrective_guidance": "G"} | known
    )


@requirement("MEM-2")
@requirement("SEC-3")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, bad) for name in ("title", "description", "content")
          for bad in ("", " \t\n", "\u2003", None, 5, b"bytes", ["list"], "a\0b", "\ud800",
                      "x" * 10_000_000)),
        ("title", "x" * 201), ("description", "x" * 1001), ("content", "x" * 32_001),
        ("outcome", "great"), ("outcome", ""), ("outcome", None), ("outcome", 1),
        ("outcome", "SUCCESS"), ("scope", "world"), ("scope", None), ("source", "rumour"),
        ("tags", tuple(f"t{i}" for i in range(33))), ("tags", ("x" * 65,)), ("tags", (5,)),
        ("tags", (None,)), ("tags", "text"), ("tags", None), ("tags", 5), ("tags", ("",)),
        ("tags", (" ",)), ("tags", ("a\0",)), ("tags", ("\udfff",)), ("tags", {"a": 1}),
        ("parents", ("not an id",)), ("parents", (UNKNOWN,)), ("parents", "text"),
        ("parents", tuple(f"{UNKNOWN[:-2]}{i:02}" for i in range(65))), ("parents", (5,)),
        ("id", "not an id"), ("id", ""), ("id", None), ("id", 5), ("id", "../../etc/passwd"),
        ("id", "x" * 1_000_000),
        *((name, bad) for name in ("difficulty", "domain", "task_type", "agent", "source_session")
          for bad in ("x" * 129, 5, "a\0b", "\ud800", " ", ["x"])),
        ("error_context", "text"), ("error_context", 5), ("error_context", {"error_type": "E"}),
        ("error_context", {"surprise": 1}), ("error_context", error(error_type=" ")),
        ("error_context", error(error_type="x" * 201)), ("error_context", error(error_type=5)),
        ("error_context", error(failure_pattern="x" * 4001)),
        ("error_context", error(corrective_guidance=None)),
        ("error_context", error(stack_trace="x" * 16_001)),
        ("error_context", error(error_message="a\0b")),
    ],
    ids=lambda v: f"{v!r}"[:40],
)  # fmt: skip
def test_a_bad_field_of_a_memory_is_refused_by_name(bank: Bank, field: str, value: Any) -> None:
    before = log_length(bank)
    with pytest.raises(ReasonBankError) as caught:
        bank.record(a_memory(**{field: value}))
    assert str(caught.value).startswith(field)
    assert len(str(caught.value)) < 500
    assert log_length(bank) == before
    if field in ("parents", "id", "source", "scope", "source_session"):
        return
    good = bank.record(a_memory(tags=("a",)))
    stored = log_length(bank)
    if field != "error_context" and value is None and field not in ("title", "tags"):
        return  # Leaving a field out changes nothing, in `update`.
    with pytest.raises(InvalidInput) as caught_too:
        bank.update(good.id, **{field: value})
    assert str(caught_too.value).startswith(field)
    assert log_length(bank) == stored
    assert bank.get(good.id) == good


@requirement("MEM-2")
@pytest.mark.parametrize("missing", ["title", "description", "content", "outcome"])
def test_a_memory_in_json_without_a_required_field_is_refused_by_name(missing: str) -> None:
    value = a_memory().to_json()
    del value[missing]
    with pytest.raises(InvalidInput, match=missing):
        Memory.from_json(value)


@requirement("SEC-3")
@pytest.mark.parametrize("text", ["{", "", "[]", "5", "null", "[" * 100_000, '"text"', "\ud800"])
def test_text_that_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Memory.from_json(text)


CALLS: list[tuple[str, Callable[[Bank, str], Any], type[ReasonBankError], str]] = [
    *((f"search limit {n!r}", lambda b, i, n=n: b.search("x", limit=n), InvalidInput, "limit")
      for n in (0, -1, 10**9, True, 1.5, "5", float("nan"))),
    *((f"search min_confidence {n!r}", lambda b, i, n=n: b.search("x", min_confidence=n),
       InvalidInput, "min_confidence")
      for n in (float("nan"), float("inf"), float("-inf"), -1, 2, True, "0.5", -1e-9)),
    *((f"search query {q!r}"[:30], lambda b, i, q=q: b.search(q), InvalidInput, "query")
      for q in ("", " ", None, 5, "a\0b", "\ud800", "x" * 10_000_000)),
    *((f"search max_tokens {n!r}", lambda b, i, n=n: b.search("x", max_tokens=n), InvalidInput,
       "max_tokens") for n in (0, -1, 1.5, True, 1 << 80)),
    *((f"search session {s!r}"[:30], lambda b, i, s=s: b.search("x", session=s), InvalidInput,
       "session") for s in ("", "x" * 129, 5, "a\0b", "\ud800")),
    *((f"memories limit {n!r}", lambda b, i, n=n: b.memories(limit=n), InvalidInput, "limit")
      for n in (0, -1, 10**9, True)),
    *((f"traces limit {n!r}", lambda b, i, n=n: b.traces(limit=n), InvalidInput, "limit")
      for n in (0, -1, 10**9, True)),
    *((f"{name} {id!r}"[:40], lambda b, i, name=name, id=id: getattr(b, name)(id), InvalidInput,
       "id") for name in ("get", "history", "evidence", "forget", "archive", "restore", "undo",
                          "update", "links", "genealogy", "trace")
      for id in ("", "no id", None, 5, "\ud800", "x" * 10_000_000)),
    *((f"{name} unknown", lambda b, i, name=name: getattr(b, name)(UNKNOWN), NotFound, UNKNOWN)
      for name in ("get", "history", "evidence", "forget", "archive", "restore", "undo",
                   "update", "links", "genealogy", "trace")),
    ("feedback unknown", lambda b, i: b.feedback(UNKNOWN, helpful=True), NotFound, UNKNOWN),
    ("outcome unknown", lambda b, i: b.outcome(UNKNOWN, succeeded=True), NotFound, UNKNOWN),
    ("feedback id", lambda b, i: b.feedback("x", helpful=True), InvalidInput, "id"),
    *((f"feedback {v!r}", lambda b, i, v=v: b.feedback(i, helpful=v), InvalidInput, "true or")
      for v in (None, 1, "yes")),
    *((f"comment {v!r}"[:30], lambda b, i, v=v: b.feedback(i, helpful=True, comment=v),
       InvalidInput, "comment") for v in (5, "x" * 2001, "a\0b", "\ud800")),
    *((f"feedback session {v!r}"[:30], lambda b, i, v=v: b.feedback(i, helpful=True, session=v),
       InvalidInput, "session") for v in (5, "", "x" * 129, "a\0b", "\ud800")),
    *((f"credit {v!r}"[:30], lambda b, i, v=v: b.credit(v, succeeded=True), InvalidInput,
       "session") for v in (5, "", None, "a\0b")),
    *((f"undo to {v!r}", lambda b, i, v=v: b.undo(i, to=v), InvalidInput, "to")
      for v in (0, -1, 2, True, "1", 1.0, 1 << 80)),
    ("undo nothing", lambda b, i: b.undo(i), Refused, "undo"),
    ("record twice", lambda b, i: b.record(a_memory(id=i)), Refused, "exists"),
    ("update unknown field", lambda b, i: b.update(i, confidence=1.0), InvalidInput, "confidence"),
    ("update scope", lambda b, i: b.update(i, scope="org"), InvalidInput, "scope"),
    *((f"link strength {v!r}", lambda b, i, v=v: b.link(i, UNKNOWN, type="similar", strength=v),
       InvalidInput, "strength") for v in (-0.1, 1.1, float("nan"), float("inf"), True, "1")),
    ("link type", lambda b, i: b.link(i, UNKNOWN, type="friend"), InvalidInput, "type"),
    ("link itself", lambda b, i: b.link(i, i, type="similar"), InvalidInput, "target"),
    ("link unknown", lambda b, i: b.link(i, UNKNOWN, type="similar"), NotFound, UNKNOWN),
    *((f"purge {v!r}", lambda b, i, v=v: b.purge_traces(older_than_days=v), InvalidInput,
       "older_than_days") for v in (-1, True, 1.5, "1", 10**9)),
    *((f"workspace name {v!r}"[:30],
       lambda b, i, v=v: b.name_workspace(b.view.workspace, v), InvalidInput, "name")
      for v in ("", " ", 5, "x" * 129, "a\0b", "\ud800")),
    ("workspace unknown", lambda b, i: b.delete_workspace("nowhere", confirm=True), NotFound,
     "nowhere"),
    ("workspace unconfirmed", lambda b, i: b.delete_workspace(b.view.workspace), Refused,
     "confirmed"),
    ("move to NUL", lambda b, i: b.move_workspace(b.view.workspace, "/a\0b"), InvalidInput,
     "workspace"),
    ("within NUL", lambda b, i: b.within("/a\0b"), InvalidInput, "workspace"),
    ("within a long path", lambda b, i: b.within("/x" * 5000), InvalidInput, "workspace"),
    ("export format", lambda b, i: b.export(StringIO(), format="xml"), InvalidInput, "format"),
]  # fmt: skip


@requirement("SEC-3")
@pytest.mark.parametrize(
    ("call", "kind", "named"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS]
)
def test_a_bad_argument_is_refused_by_name_and_changes_nothing(
    bank: Bank, call: Callable[[Bank, str], Any], kind: type[ReasonBankError], named: str
) -> None:
    memory = bank.record(a_memory())
    before = log_length(bank)
    with pytest.raises(kind) as caught:
        call(bank, memory.id)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 500
    assert log_length(bank) == before
    assert bank.get(memory.id) == memory


@requirement("SEC-3")
@pytest.mark.parametrize(
    "reason", [5, "a\0b", "\ud800", "x" * 10_000_000], ids=lambda v: repr(v)[:9]
)
def test_a_bad_reason_is_refused(bank: Bank, reason: Any) -> None:
    memory = bank.record(a_memory())
    before = log_length(bank)
    with pytest.raises(InvalidInput, match="reason"):
        bank.archive(memory.id, reason=reason)
    assert log_length(bank) == before


@requirement("SEC-3")
@pytest.mark.parametrize(
    "filter",
    [
        {"scopes": ("world",)}, {"scopes": "project"}, {"states": ("gone",)},
        {"outcomes": ("great",)}, {"sources": ("rumour",)},
        {"tags": ("\ud800",)}, {"tags": (5,)}, {"tags": "text"}, {"tags": ("t",) * 10_000},
        {"domain": "\ud800"}, {"domain": 5}, {"error_type": "x" * 10_000_000},
        {"created_after": 1 << 80}, {"created_before": "yesterday"},
        {"created_after": float("nan")},
    ],
    ids=lambda v: f"{v!r}"[:40],
)  # fmt: skip
def test_a_bad_filter_is_refused(bank: Bank, filter: dict[str, Any]) -> None:
    bank.record(a_memory())
    with pytest.raises(InvalidInput) as caught:
        bank.search("port", filter=Filter(**filter))
    assert next(iter(filter)) in str(caught.value)
    with pytest.raises(InvalidInput):
        bank.memories(Filter(**filter))


def steps(**known: Any) -> dict[str, Any]:
    return {"trajectory": (Step(**{"iteration": 1, "action": "think"} | known),)}


@requirement("SEC-3")
@pytest.mark.parametrize(
    ("field", "known"),
    [
        ("task", {"task": ""}), ("task", {"task": "x" * 32_001}), ("task", {"task": "a\0"}),
        ("task", {"task": 5}), ("task", {"task": "\ud800"}), ("outcome", {"outcome": "great"}),
        ("id", {"id": "x"}), ("parent", {"parent": "x"}),
        ("final_score", {"final_score": float("nan")}), ("final_score", {"final_score": 2}),
        ("memories_used", {"memories_used": ("x",)}),
        ("memories_used", {"memories_used": 5}),
        ("memories_learned", {"memories_learned": (5,)}),
        ("metadata", {"metadata": nested(17)}), ("metadata", {"metadata": nested(50_000)}),
        ("metadata", {"metadata": [1]}), ("metadata", {"metadata": {"a": float("nan")}}),
        ("metadata", {"metadata": {"a": "\ud800"}}), ("metadata", {"metadata": {"a": object()}}),
        ("metadata", {"metadata": {(1, 2): 1}}),
        ("trajectory", {"trajectory": 5}), ("trajectory", {"trajectory": ("step",)}),
        ("trajectory", {"trajectory": (Step(iteration=1, action="a"),) * 10_001}),
        ("trajectory", steps(content=nested(50_000))), ("trajectory", steps(content="a\0")),
        ("trajectory", steps(content="\ud800")), ("trajectory", steps(score=float("nan"))),
        ("trajectory", steps(score=2)), ("trajectory", steps(iteration="one")),
        ("trajectory", steps(iteration=1 << 80)), ("trajectory", steps(action="")),
        ("trajectory", steps(at="yesterday")),
        ("trace", steps(content="x" * 4_000_000)),
        ("created_at", {"created_at": "yesterday"}),
    ],
    ids=lambda v: f"{v!r}"[:50] if not isinstance(v, dict) else str(next(iter(v))),
)  # fmt: skip
def test_a_bad_trace_is_refused_by_name(bank: Bank, field: str, known: dict[str, Any]) -> None:
    bank.record(a_memory())
    before = log_length(bank)
    with pytest.raises(InvalidInput) as caught:
        bank.store_trace(Trace(**{"task": "t", "outcome": Outcome.MIXED} | known))
    assert str(caught.value).startswith(field)
    assert log_length(bank) == before
    assert bank.traces() == []


def test_a_trace_as_large_as_allowed_is_stored_whole(bank: Bank) -> None:
    trace = Trace(
        task="x" * 32_000,
        outcome=Outcome.SUCCESS,
        trajectory=(Step(iteration=1, action="a", content="y" * 3_000_000, at=datetime.now(UTC)),),
        metadata=nested(16),
    )
    stored = bank.store_trace(trace)
    assert bank.trace(trace.id) == stored


@requirement("WSP-1")
def test_a_path_with_dots_is_the_workspace_of_the_plain_path(path: Path, tmp_path: Path) -> None:
    with open_bank(path, tmp_path / "a" / "b" / ".." / "project") as bank:
        id = bank.record(a_memory()).id
        for way in ("a/project", "a/./project", "a/project/", "a//project", "x/../a/project"):
            assert bank.within(f"{tmp_path}/{way}").get(id).id == id
        with pytest.raises(NotFound):
            bank.within(tmp_path / "a" / "b" / "project").get(id)


@pytest.mark.parametrize(
    "text",
    ["'; drop table memories; --", '"', "NEAR(", "a AND", "col:x", "*", "^", "{", "日本語", "\x01",
     "title:x OR", "(" * 1000, "-", "🦓" * 100, "\u202e", "%s %d", "<memory>", "a" * 32_000],
    ids=lambda v: f"{v!r}"[:30],
)  # fmt: skip
def test_strange_but_honest_text_is_stored_found_and_given_back(bank: Bank, text: str) -> None:
    title = text[:150] if text[:150].strip() else "x"
    memory = bank.record(a_memory(title, content=text, tags=(text[:60].strip(),)))
    assert bank.get(memory.id).content == text
    bank.search(text)
    bank.search(f'"{text[:100]}"', filter=Filter(tags=(text[:60].strip(),)))
    assert Memory.from_json(bank.get(memory.id).to_json()) == bank.get(memory.id)
    assert text in [
        json.loads(line)["payload"].get("lesson", {}).get("content")
        for line in exported(bank).splitlines()[1:-1]
    ]
