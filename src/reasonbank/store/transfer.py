"""A bank as a file: the log as JSON lines, or the memories as Markdown."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.fields import to_json
from reasonbank.ledger.events import Event, EventType, encode
from reasonbank.ledger.payloads import check_event
from reasonbank.ledger.port import Filter, Writing
from reasonbank.model import (
    JSON,
    Memory,
    Principal,
    Source,
    Standing,
    State,
    derived_id,
    new_id,
)
from reasonbank.store import batches, memories
from reasonbank.store.adoption import KIND, adopt
from reasonbank.store.batches import BatchStep
from reasonbank.store.context import Context, Progress, Store
from reasonbank.store.probation import vouched_for
from reasonbank.trust.belief import initial_confidence

FORMAT = "reasonbank-log"
VERSION = 2
READABLE = (1, 2)
LONGEST_LINE = 8_000_000
WORDY = frozenset(
    {
        EventType.RECORDED,
        EventType.REVISED,
        EventType.ARCHIVED,
        EventType.OBSERVED,
        EventType.TRACED,
        EventType.LEARNED,
    }
)
"""The events that carry what somebody wrote."""
NAMES = ("session", "path", "name")
OF_TASKS = (EventType.ENDED, EventType.JUDGED, EventType.WITHHELD)
"""Their subject is the name of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How many ``events`` of a log, or plain ``memories``, there were, and how many are new.

    ``left_out`` are events of a log that nobody here vouches for: see ``store/adoption.py``.
    ``batch`` takes the memories back; what was taken as another bank wrote it has none.
    """

    events: int | None = None
    memories: int | None = None
    new: int
    skipped: int
    left_out: int | None = None
    batch: str | None = None

    def to_json(self) -> JSON:
        return {name: value for name, value in to_json(self).items() if value is not None}


def export(
    context: Context, file: IO[str], format: str, only_here: bool, progress: Progress
) -> int:
    match format:
        case "jsonl":
            return _export_log(context, file, only_here, progress)
        case "markdown":
            return _export_markdown(context, file, progress)
    raise InvalidInput("format", f"must be one of jsonl, markdown (got {format!r})")


def _export_log(context: Context, file: IO[str], only_here: bool, progress: Progress) -> int:
    """A header, one event a line, and a footer that shows whether the file is whole."""
    core = context.store
    digest = hashlib.sha256()
    count = 0

    def put(value: JSON) -> None:
        line = encode(value) + "\n"
        digest.update(line.encode())
        file.write(line)

    put({"format": FORMAT, "version": VERSION, "bank": core.ledger.bank_id})
    workspace = context.view.workspace if only_here else None
    reading = core.ledger.read()
    total = reading.event_count(workspace, redacted=True)
    for event in reading.events(workspace, redacted=True):
        put(event.to_json())
        count += 1
        progress(count, max(count, total))
    end = {"end": True, "events": count, "sha256": digest.hexdigest()}
    file.write(encode(end | {"signature": _signature(core, digest.hexdigest())}) + "\n")
    return count


def _signature(store: Store, digest: str) -> str:
    """Only who has the bank can make it, and tell that it is right."""
    key = hashlib.sha256(b"export\0" + store.ledger.seal.encode()).digest()
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def import_(context: Context, file: IO[str], progress: Progress, *, trusted: bool) -> Imported:
    standing = vouched_for(context, trusted)
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        raise InvalidInput("file", "is empty; nothing was imported")
    if first[1].get("format") == FORMAT:
        return _import_log(context, first, lines, progress, trusted)
    return _import_memories(context, first, lines, progress, standing)


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
    context: Context,
    first: tuple[int, JSON, str],
    lines: Iterator[tuple[int, JSON, str]],
    progress: Progress,
    trusted: bool,
) -> Imported:
    _, header, raw = first
    if header.get("version") not in READABLE:
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
    events = _checked_events(context, read, _half(progress, 0))
    signature = _signature(context.store, digest.hexdigest())
    if not trusted and not hmac.compare_digest(str(footer.get("signature")), signature):
        adopted = adopt(context, events, _half(progress, 1))
        return Imported(
            memories=adopted.memories,
            new=adopted.new,
            skipped=adopted.memories - adopted.new,
            left_out=adopted.left_out,
            batch=adopted.batch,
        )
    new = _checked_take(context, events, _half(progress, 1))
    context.store.indexing.wake()
    return Imported(events=len(events), new=new, skipped=len(events) - new)


def _checked_events(
    context: Context, read: list[tuple[int, JSON]], progress: Progress
) -> list[Event]:
    clean = _cleaner(context)
    events = []
    for done, (number, value) in enumerate(read):
        try:
            event = Event.from_json(value)
            check_event(event)
            event = _without_secrets(context, event, clean)
        except InvalidInput as error:
            raise InvalidInput(f"line {number}", str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"line {number}", f"is malformed: {_reason(error)}") from None
        events.append(event)
        progress(done + 1, len(read))
    return events


def without_secrets(context: Context, event: Event) -> Event:
    return _without_secrets(context, event, _cleaner(context))


def _without_secrets(context: Context, event: Event, clean: Callable[[JSON], JSON]) -> Event:
    """An event whose bank did not scrub what it wrote; a changed payload has no salt."""
    payload = clean(event.payload) if event.type in WORDY else event.payload
    payload = payload | {
        name: context.fit_name(told) for name in NAMES if isinstance(told := payload.get(name), str)
    }
    author = context.fit_name(event.author)
    subject = context.fit_name(event.subject) if event.type in OF_TASKS else event.subject
    if (payload, author, subject) == (event.payload, event.author, event.subject):
        return event
    return replace(event, payload=payload, author=author, subject=subject, salt=None)


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _cleaner(context: Context) -> Callable[[JSON], JSON]:
    if not context.settings.scrub:
        return lambda payload: payload
    from reasonbank.safety.scrub import clean_json

    return clean_json


def _half(progress: Progress, before: int) -> Progress:
    """The first or the second half of one piece of work."""
    return lambda done, total: progress((before * total + done) // 2, total)


def _checked_take(context: Context, events: list[Event], progress: Progress) -> int:
    def work(txn: Writing) -> int:
        try:
            if new := txn.take(events, progress):
                context.note(txn, EventType.IMPORTED)
            return new
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput("file", f"holds a malformed event: {_reason(error)}") from None

    before = context.read().vector_position()
    new = context.write(work)
    if any(e.type in (EventType.FORGOTTEN, EventType.DELETED, EventType.PURGED) for e in events):
        erase_since(context, before)
    return new


def erase_since(context: Context, position: int) -> None:
    """What others told this bank to forget is gone from all that is derived from it, too."""
    changes = context.store.indexing.changes(context.read(), position, 1_000_000)
    context.store.erase(changes.nums[changes.deleted].tolist())


def _import_memories(
    context: Context,
    first: tuple[int, JSON, str],
    lines: Iterable[tuple[int, JSON, str]],
    progress: Progress,
    standing: Standing | None,
) -> Imported:
    """Plain memories, one a line. One without an id gets the same id each time."""
    context = replace(context, acts_as=Principal.IMPORT)
    batch = new_id()
    found = []
    for number, value, _ in (first, *lines):
        try:
            known = {"id": _id_of(context, value)} | value | {"source": Source.IMPORTED}
            found.append((number, context.fit(Memory.from_json(known))))
        except InvalidInput as error:
            raise InvalidInput(f"line {number}", str(error)) from None

    def work(txn: Writing) -> int:
        new = 0
        for done, (number, memory) in enumerate(found, 1):
            progress(done, len(found))
            if txn.taken(memory.id):
                continue
            try:
                stage = memories.stage_of(context, txn, memory.parents)
            except NotFound as error:
                raise InvalidInput(f"line {number}", f"{error}. Nothing was imported") from None
            initial = initial_confidence(memory.source, memory.outcome)
            step = BatchStep(created=memory, initial=initial, stage=stage, standing=standing)
            batches.apply(context, txn, batch, KIND, step)
            new += 1
        return new

    new = context.write(work)
    context.store.indexing.wake()
    return Imported(
        memories=len(found), new=new, skipped=len(found) - new, batch=batch if new else None
    )


def memories_in(context: Context, file: IO[str]) -> list[str]:
    """The ids that an import of this file gives its memories."""
    found = []
    for number, value, _ in _lines(file):
        if number == 1 and value.get("format") == FORMAT:
            continue
        if "event" in value:
            found += [value["subject"]] if value["event"] == EventType.RECORDED else []
        elif not value.get("end"):
            found.append(value.get("id") or _id_of(context, value))
    return [id for id in found if isinstance(id, str)]


def _id_of(context: Context, value: JSON) -> str:
    return derived_id(json.dumps([context.view.workspace, value], sort_keys=True))


def _export_markdown(context: Context, file: IO[str], progress: Progress) -> int:
    """Every memory but those of other projects that nothing has confirmed; archived ones say so."""
    here = context.view.workspace
    every = memories.listed(context, Filter(states=tuple(State)), 1_000_000)
    found = [m for m in every if m.standing is Standing.CONFIRMED or m.workspace == here]
    file.write("# Memories\n")
    for done, memory in enumerate(reversed(found), 1):
        file.write("\n" + _markdown(memory))
        progress(done, len(found))
    return len(found)


def _markdown(memory: Memory) -> str:
    facts = [
        ("id", memory.id), ("outcome", memory.outcome), ("confidence", memory.confidence),
        ("scope", memory.scope), ("state", memory.state), ("source", memory.source),
        ("standing", "" if memory.standing is Standing.CONFIRMED else memory.standing),
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
