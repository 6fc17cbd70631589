"""A bank as a file: the log as JSON lines, or the memories as Markdown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.ledger.events import Event, What, encode
from reasonbank.ledger.payloads import check_event
from reasonbank.ledger.port import Filter, Writing
from reasonbank.model import (
    JSON,
    Memory,
    Source,
    State,
    derived_id,
)

if TYPE_CHECKING:
    from reasonbank.bank import Bank

FORMAT = "reasonbank-log"
VERSION = 1
LONGEST_LINE = 8_000_000
WORDY = frozenset(
    {What.RECORDED, What.REVISED, What.ARCHIVED, What.OBSERVED, What.TRACED, What.LEARNED}
)
"""The events that carry what somebody wrote."""


def export(bank: Bank, file: IO[str], format: str, only_here: bool) -> int:
    match format:
        case "jsonl":
            return _export_log(bank, file, only_here)
        case "markdown":
            return _export_markdown(bank, file)
    raise InvalidInput("format", f"{format!r} is none of: jsonl, markdown")


def _export_log(bank: Bank, file: IO[str], only_here: bool) -> int:
    """A header, one event a line, and a footer that shows whether the file is whole."""
    core = bank.core
    digest = hashlib.sha256()
    count = 0

    def put(value: JSON) -> None:
        line = encode(value) + "\n"
        digest.update(line.encode())
        file.write(line)

    put({"format": FORMAT, "version": VERSION, "bank": core.ledger.bank_id})
    for event in core.ledger.read().events(bank.view.workspace if only_here else None):
        put(event.to_json())
        count += 1
    file.write(encode({"end": True, "events": count, "sha256": digest.hexdigest()}) + "\n")
    return count


def import_(bank: Bank, file: IO[str], progress: Callable[[int, int], None]) -> JSON:
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        raise InvalidInput("file", "is empty; nothing was imported")
    if first[1].get("format") == FORMAT:
        return _import_log(bank, first, lines, progress)
    return _import_memories(bank, first, lines, progress)


def _lines(file: IO[str]) -> Iterator[tuple[int, JSON, str]]:
    number = 0
    while line := _line(file, number + 1):
        number += 1
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise InvalidInput(
                f"line {number}", "is not JSON; the file may be cut off. Nothing was imported"
            ) from None
        if not isinstance(value, dict):
            raise InvalidInput(f"line {number}", "is not an object; nothing was imported")
        yield number, value, line


def _line(file: IO[str], number: int) -> str:
    try:
        line = file.readline(LONGEST_LINE + 1)
        line.encode()
    except UnicodeError:
        raise InvalidInput(
            f"line {number}", "is not UTF-8; the file may be cut off. Nothing was imported"
        ) from None
    if len(line) > LONGEST_LINE:
        raise InvalidInput(f"line {number}", "is too long; nothing was imported")
    return line


def _import_log(
    bank: Bank,
    first: tuple[int, JSON, str],
    lines: Iterator[tuple[int, JSON, str]],
    progress: Callable[[int, int], None],
) -> JSON:
    _, header, raw = first
    if header.get("version") != VERSION:
        raise InvalidInput(
            "version", f"{header.get('version')!r} is unknown; a newer program wrote this file"
        )
    digest = hashlib.sha256(raw.encode())
    read: list[tuple[int, JSON]] = []
    footer: JSON | None = None
    for number, value, line in lines:
        if value.get("end"):
            footer = value
            break
        digest.update(line.encode())
        read.append((number, value))
    if footer is None:
        raise InvalidInput(
            "file", f"is cut off after {len(read)} events; nothing was imported. Export it again"
        )
    if footer.get("sha256") != digest.hexdigest():
        raise InvalidInput("file", "was changed since it was exported; nothing was imported")
    if next(lines, None) is not None:
        raise InvalidInput("file", "goes on after its end; import one export at a time")
    events = _checked_events(bank, read, progress)
    new = _checked_take(bank, events)
    bank.core.indexing.wake()
    return {"events": len(events), "new": new, "skipped": len(events) - new}


def _checked_events(
    bank: Bank, read: list[tuple[int, JSON]], progress: Callable[[int, int], None]
) -> list[Event]:
    horizon = bank.core.clock() + 86_400_000_000
    clean = _cleaner(bank)
    events = []
    for done, (number, value) in enumerate(read):
        try:
            event = Event.from_json(value)
            if event.what in WORDY:
                event = replace(event, payload=clean(event.payload))
            if event.at > horizon:
                raise InvalidInput("at", "is in the future; check the clock")
            check_event(event)
        except InvalidInput as error:
            raise InvalidInput(f"line {number}", str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"line {number}", f"makes no sense: {error!r}") from None
        events.append(event)
        progress(done + 1, len(read))
    return events


def _cleaner(bank: Bank) -> Callable[[JSON], JSON]:
    if not bank.settings.scrub:
        return lambda payload: payload
    from reasonbank.safety.scrub import clean_json

    return clean_json


def _checked_take(bank: Bank, events: list[Event]) -> int:
    def work(txn: Writing) -> int:
        try:
            if new := txn.take(events):
                bank._on_record(txn, What.IMPORTED)
            return new
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput("file", f"holds an event that makes no sense: {error!r}") from None

    indexing = bank.core.indexing
    model = indexing.embedder.name
    before = bank.core.ledger.read().vector_position()
    new = bank._write(work)
    if any(e.what in (What.FORGOTTEN, What.DELETED, What.PURGED) for e in events):
        changes = bank.core.ledger.read().vector_changes(
            model, before, 1_000_000, indexing.embedder.dimensions
        )
        bank._erase(changes.nums[changes.deleted].tolist())
    return new


def _import_memories(
    bank: Bank,
    first: tuple[int, JSON, str],
    lines: Iterable[tuple[int, JSON, str]],
    progress: Callable[[int, int], None],
) -> JSON:
    """Plain memories, one a line. One without an id gets the same id each time."""
    memories = []
    for number, value, _ in (first, *lines):
        try:
            known = {"id": _id_of(bank, value)} | value | {"source": Source.IMPORTED}
            memories.append((number, bank._fit(Memory.from_json(known))))
        except InvalidInput as error:
            raise InvalidInput(f"line {number}", str(error)) from None

    def work(txn: Writing) -> int:
        new = 0
        for done, (number, memory) in enumerate(memories, 1):
            progress(done, len(memories))
            if txn.forgotten(memory.id) or txn.taken(memory.id):
                continue
            try:
                bank._record(txn, memory)
            except NotFound as error:
                raise InvalidInput(f"line {number}", f"{error}. Nothing was imported") from None
            new += 1
        return new

    new = bank._write(work)
    bank.core.indexing.wake()
    return {"memories": len(memories), "new": new, "skipped": len(memories) - new}


def _id_of(bank: Bank, value: JSON) -> str:
    return derived_id(json.dumps([bank.view.workspace, value], sort_keys=True))


def _export_markdown(bank: Bank, file: IO[str]) -> int:
    memories = bank.memories(Filter(states=tuple(State)), limit=1_000_000)
    file.write("# Memories\n")
    for memory in reversed(memories):
        file.write("\n" + _markdown(memory))
    return len(memories)


def _markdown(memory: Memory) -> str:
    facts = [
        ("id", memory.id), ("outcome", memory.outcome), ("confidence", memory.confidence),
        ("scope", memory.scope), ("state", memory.state), ("source", memory.source),
        ("domain", memory.domain), ("tags", ", ".join(memory.tags)), ("uses", memory.usage_count),
    ]  # fmt: skip
    lines = [f"## {' '.join(memory.title.split())}", ""]
    lines += [f"- {name}: {value}" for name, value in facts if value not in (None, "")]
    lines += ["", memory.description, "", memory.content, ""]
    if error := memory.error_context:
        lines += [
            f"> **Warning: {error.error_type}.** {error.failure_pattern}",
            f"> {error.corrective_guidance}",
            "",
        ]
    return "\n".join(lines)
