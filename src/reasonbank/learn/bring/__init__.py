"""Bring what you have: memories that another program kept, taken over once.

A reader for each format finds notes; here they become memories. What another program wrote is an
import: nobody here vouches for it yet, secrets are taken out, and what looks like an instruction
is flagged as everywhere. All that is new is one transaction and one batch, taken back as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from reasonbank.errors import InvalidInput
from reasonbank.fields import LIMITS
from reasonbank.learn.bring.found import Found, LeftOut, Note
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Reading, Writing
from reasonbank.model import Memory, Principal, Source, Standing, State, derived_id, new_id
from reasonbank.safety.prompt_injection import suspicions_of
from reasonbank.store import batches, given
from reasonbank.store.adoption import KIND
from reasonbank.store.batches import BatchStep
from reasonbank.store.context import Context, Progress
from reasonbank.store.probation import vouched_for
from reasonbank.trust.belief import initial_confidence

FORMATS: Mapping[str, str] = {
    "memory-json": "memory.json of MCP's reference memory server",
    "basic-memory": "a folder of basic-memory",
    "mcp-memory-service": "the SQLite database of mcp-memory-service",
    "mem0": "what mem0's get_all answers, as JSON",
    "instructions": "CLAUDE.md, AGENTS.md, .cursor/rules: a file, or the project's folder",
}
"""What can be read; each has a module of its own beside this one."""
_MODULES = {"memory-json": "memory_json", "mcp-memory-service": "memory_service"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A memory that came from elsewhere. ``suspicious`` says why no prompt gets it unasked."""

    id: str
    title: str
    outcome: str
    where: str
    new: bool
    suspicious: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What was found; so many are ``new``, or would be. To undo the ``batch`` takes them back."""

    format: str
    dry_run: bool
    new: int
    known: int
    memories: tuple[Taken, ...]
    left_out: tuple[LeftOut, ...]
    batch: str | None = None


def bring(
    context: Context, path: Path, format: str, *, dry_run: bool, progress: Progress,
    trusted: bool = False,
) -> Brought:  # fmt: skip
    """Take over what ``path`` holds, all that can be taken or nothing; twice changes nothing."""
    standing = vouched_for(context, trusted)
    context = replace(context, acts_as=Principal.IMPORT)
    found = list(_fitting(context, format, _reader(format)(path)))
    plan = _planned(context.read(), context, found)
    if not dry_run and any(each.new for each in _taken(plan)):
        batch = new_id()
        plan = context.write(lambda txn: _record(context, txn, found, batch, standing, progress))
        context.store.indexing.wake()
    else:
        batch = None
    taken = tuple(_taken(plan))
    new = sum(each.new for each in taken)
    return Brought(
        format=format,
        dry_run=dry_run,
        new=new,
        known=len(taken) - new,
        memories=taken,
        left_out=tuple(each for each in plan if isinstance(each, LeftOut)),
        batch=batch if new else None,
    )


def _reader(format: str) -> Callable[[Path], Iterator[Found]]:
    if format not in FORMATS:
        raise InvalidInput("from", f"must be one of {', '.join(FORMATS)} (got {format!r})")
    name = _MODULES.get(format, format.replace("-", "_"))
    read: Callable[[Path], Iterator[Found]] = import_module(f"{__name__}.{name}").read
    return read


# From notes to memories

_Fit = tuple[Memory, str] | LeftOut


def _fitting(context: Context, format: str, found: Iterable[Found]) -> Iterator[_Fit]:
    seen: dict[str, str] = {}
    for each in found:
        where = cut(context.without_secrets(" ".join(each.where.split())), LIMITS.title)
        if isinstance(each, LeftOut):
            yield LeftOut(where=where, reason=context.without_secrets(each.reason))
            continue
        try:
            memory = context.fit(given.memory(context, _told(context, format, each)))
        except InvalidInput as error:
            context.hush(error)
            yield LeftOut(where=where, reason=str(error))
            continue
        if memory.id not in seen:
            seen[memory.id] = memory.content
            yield memory, where
        elif seen[memory.id] != memory.content:
            yield LeftOut(where=where, reason="is there twice, and says two things")


def _told(context: Context, format: str, note: Note) -> dict[str, Any]:
    limits = context.settings.limits
    tags = (cut(" ".join(tag.split()), limits.tag) for tag in (format, *note.tags))
    told: dict[str, Any] = {
        "id": derived_id("bring", context.view.workspace, format, note.key),
        "content": note.content.strip(),
        "tags": list(dict.fromkeys(filter(None, tags)))[: limits.tags],
        "source": Source.IMPORTED,
        "source_session": cut(f"{format}: {note.where}", LIMITS.label),
    }
    # Of a secret that is cut in two, neither half is known for one.
    for name, text, most in (
        ("title", note.title, limits.title),
        ("description", note.about, limits.description),
    ):
        if text and text.strip():
            told[name] = cut(" ".join(context.without_secrets(text).split()), most)
    return told


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


# What is new, and what is not

_Planned = Taken | LeftOut


def _taken(plan: Iterable[_Planned]) -> Iterator[Taken]:
    return (each for each in plan if isinstance(each, Taken))


def _planned(reading: Reading, context: Context, found: Iterable[_Fit]) -> list[_Planned]:
    return [
        each if isinstance(each, LeftOut) else _seen_here(reading, context, *each) for each in found
    ]


def _seen_here(reading: Reading, context: Context, memory: Memory, where: str) -> _Planned:
    def left(reason: str) -> LeftOut:
        return LeftOut(where=where, reason=reason)

    if reading.forgotten(memory.id):
        return left("was forgotten here for good")
    row = reading.row(context.view, memory.id)
    archived = row is not None and row.state == State.ARCHIVED
    if row is not None and archived and row.merged_into is None:
        return left(f"is archived here; `reasonbank restore {memory.id}` brings it back")
    if row is not None and not archived and row.memory().content != memory.content:
        return left(f"differs from what was taken before, which is memory {memory.id} here")
    return Taken(
        id=memory.id,
        title=memory.title,
        outcome=memory.outcome,
        where=where,
        new=not reading.taken(memory.id),
        suspicious=suspicions_of(memory),
    )


def _record(
    context: Context, txn: Writing, found: list[_Fit], batch: str, standing: Standing | None,
    progress: Progress,
) -> list[_Planned]:  # fmt: skip
    plan = _planned(txn, context, found)
    for done, (each, planned) in enumerate(zip(found, plan, strict=True), 1):
        progress(done, len(found))
        if isinstance(each, LeftOut) or isinstance(planned, LeftOut) or not planned.new:
            continue
        memory = each[0]
        initial = initial_confidence(memory.source, memory.outcome)
        step = BatchStep(created=memory, initial=initial, standing=standing)
        batches.apply(context, txn, batch, KIND, step)
    if any(each.new for each in _taken(plan)):
        context.note(txn, EventType.IMPORTED)
    return plan
