"""A bank as a file: the log as JSON lines, or the memories as Markdown."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import IO, Any

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.fields import LIMITS, Limits, checked, choice, parse_id, share, text, to_json, whole
from reasonbank.ledger.events import BATCHES, CHANGES, NOTES, Event, What, encode
from reasonbank.ledger.port import Filter, Writing
from reasonbank.model import (
    JSON,
    REVISABLE,
    Kind,
    LinkType,
    Memory,
    Outcome,
    Source,
    State,
    Step,
    Trace,
    derived_id,
)
from reasonbank.store import batches, memories
from reasonbank.store.context import Context, Progress

FORMAT = "reasonbank-log"
VERSION = 1
LONGEST_LINE = 8_000_000
WORDY = frozenset(
    {What.RECORDED, What.REVISED, What.ARCHIVED, What.OBSERVED, What.TRACED, What.LEARNED}
)
"""The events that carry what somebody wrote."""
LARGEST_VECTOR = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How many ``events`` of a log, or plain ``memories``, there were, and how many are new."""

    events: int | None = None
    memories: int | None = None
    new: int
    skipped: int

    def to_json(self) -> JSON:
        return {name: value for name, value in to_json(self).items() if value is not None}


def export(context: Context, file: IO[str], format: str, only_here: bool) -> int:
    match format:
        case "jsonl":
            return _export_log(context, file, only_here)
        case "markdown":
            return _export_markdown(context, file)
    raise InvalidInput("format", f"{format!r} is none of: jsonl, markdown")


def _export_log(context: Context, file: IO[str], only_here: bool) -> int:
    """A header, one event a line, and a footer that shows whether the file is whole."""
    core = context.store
    digest = hashlib.sha256()
    count = 0

    def put(value: JSON) -> None:
        line = encode(value) + "\n"
        digest.update(line.encode())
        file.write(line)

    put({"format": FORMAT, "version": VERSION, "bank": core.ledger.bank_id})
    for event in core.ledger.read().events(context.view.workspace if only_here else None):
        put(event.to_json())
        count += 1
    file.write(encode({"end": True, "events": count, "sha256": digest.hexdigest()}) + "\n")
    return count


def import_(context: Context, file: IO[str], progress: Progress) -> Imported:
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        raise InvalidInput("file", "is empty; nothing was imported")
    if first[1].get("format") == FORMAT:
        return _import_log(context, first, lines, progress)
    return _import_memories(context, first, lines, progress)


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
) -> Imported:
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
    events = _checked_events(context, read, progress)
    new = _checked_take(context, events)
    context.store.indexing.wake()
    return Imported(events=len(events), new=new, skipped=len(events) - new)


def _checked_events(
    context: Context, read: list[tuple[int, JSON]], progress: Progress
) -> list[Event]:
    horizon = context.now() + 86_400_000_000
    clean = _cleaner(context)
    events = []
    for done, (number, value) in enumerate(read):
        try:
            event = Event.from_json(value)
            if event.what in WORDY:
                event = replace(event, payload=clean(event.payload))
            if event.at > horizon:
                raise InvalidInput("at", "is in the future; check the clock")
            _check_event(event)
        except InvalidInput as error:
            raise InvalidInput(f"line {number}", str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput(f"line {number}", f"makes no sense: {error!r}") from None
        events.append(event)
        progress(done + 1, len(read))
    return events


def _cleaner(context: Context) -> Callable[[JSON], JSON]:
    if not context.settings.scrub:
        return lambda payload: payload
    from reasonbank.safety.scrub import clean_json

    return clean_json


def _checked_take(context: Context, events: list[Event]) -> int:
    def work(txn: Writing) -> int:
        try:
            if new := txn.take(events):
                context.note(txn, What.IMPORTED)
            return new
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInput("file", f"holds an event that makes no sense: {error!r}") from None

    indexing = context.store.indexing
    model = indexing.embedder.name
    before = context.read().vector_position()
    new = context.write(work)
    if any(e.what in (What.FORGOTTEN, What.DELETED, What.PURGED) for e in events):
        changes = context.read().vector_changes(
            model, before, 1_000_000, indexing.embedder.dimensions
        )
        context.store.erase(changes.nums[changes.deleted].tolist())
    return new


def _check_event(event: Event) -> None:
    """An event that this program could have written, or an error that names the field.

    Lower limits in the settings do not count: what was allowed once can be imported.
    """
    p = event.payload
    _check_json(p, "payload", LIMITS.nesting + 4)
    parse_id(event.id)
    if event.what in NOTES:
        raise InvalidInput("event", f"{event.what} is never exported; somebody else wrote this")
    for name in ("workspace", "origin", "author", "surface"):
        text(getattr(event, name), name, LIMITS.label)
    if event.what in CHANGES | BATCHES or event.what in (
        What.FORGOTTEN,
        What.OBSERVED,
        What.TRACED,
        What.LEARNED,
    ):
        parse_id(event.subject, "subject")
    match event.what:
        case What.RECORDED:
            checked(Memory.from_json(p["lesson"] | {"id": event.subject}))
            whole(p.get("stage", 0), "stage", least=0, most=1_000_000)
            whole(p.get("created_at", 0), "created_at", least=0, most=event.at)
            share(p.get("initial", 0.5), "initial")
        case What.APPLIED | What.REVERTED:
            batches.check(event)
        case What.REVISED:
            _check_changes(p["changes"])
        case What.ARCHIVED:
            _optional(p, "reason", LIMITS.content)
            if p.get("merged_into") is not None:
                parse_id(p["merged_into"], "merged_into")
        case What.UNDONE if p.get("to") is not None:
            whole(p["to"], "to", least=1, most=1_000_000)
        case What.USED | What.PURGED | What.DELETED:
            for id in p["ids"]:
                parse_id(id, "ids")
            _optional(p, "session", LIMITS.label)
            for count in p.get("times", {}).values():
                whole(count, "times", least=1, most=1 << 40)
            _check_question(p)
        case What.WITHHELD | What.ENDED:
            _check_task(event)
        case What.OBSERVED:
            _check_observation(p)
        case What.LINKED | What.UNLINKED:
            parse_id(event.subject, "subject")
            parse_id(p["target"], "target")
            choice(LinkType, p["type"], "type")
            share(p.get("strength", 1.0), "strength")
        case What.TRACED:
            checked_trace(Trace.from_json(p["trace"]), LIMITS)
            whole(p["at"], "at", least=0, most=1 << 62)
        case What.LEARNED:
            _check_verdict(p)
        case What.JOINED | What.NAMED | What.MOVED:
            for name in {"path", "digest", "old_digest", "heir"} & p.keys():
                _optional(p, name, 4096)
            for name in {"team", "org", "name"} & p.keys():
                text(p[name], name, LIMITS.label)


def _check_changes(changes: JSON) -> None:
    blank = {"title": "-", "description": "-", "content": "-", "outcome": Outcome.MIXED}
    for name, value in changes.items():
        if name not in REVISABLE or (value is None and name in blank):
            raise InvalidInput(name, "cannot be changed like this")
    checked(Memory.from_json(blank | {k: v for k, v in changes.items() if v is not None}))


def _check_observation(p: JSON) -> None:
    choice(Kind, p["kind"], "kind")
    if not isinstance(p["positive"], bool):
        raise InvalidInput("positive", "must be true or false")
    if len(bytes.fromhex(p["key"])) != 16:
        raise InvalidInput("key", "must be 32 hexadecimal digits")
    for name, largest in (("session", LIMITS.label), ("rater", LIMITS.label),
                          ("comment", LIMITS.comment)):  # fmt: skip
        _optional(p, name, largest)


def _check_verdict(p: JSON) -> None:
    for id in p["ids"]:
        parse_id(id, "ids")
    if p.get("outcome") is not None:
        choice(Outcome, p["outcome"], "outcome")
    if p.get("score") is not None:
        share(p["score"], "score")
    _optional(p, "by", LIMITS.label)
    _optional(p, "reason", LIMITS.content)


def _check_task(event: Event) -> None:
    text(event.subject, "session", LIMITS.label)
    for id in event.payload["ids"] if event.what is What.WITHHELD else ():
        parse_id(id, "ids")
    if event.what is What.ENDED and not isinstance(event.payload["succeeded"], bool):
        raise InvalidInput("succeeded", "must be true or false")


def _check_question(p: JSON) -> None:
    for id, expected in p.get("expected", {}).items():
        parse_id(id, "expected")
        share(expected, "expected")
    if p.get("vector") is not None:
        text(p["model"], "model", LIMITS.label)
        vector = base64.b64decode(text(p["vector"], "vector", 4 * LARGEST_VECTOR // 3 + 4))
        if not 1 <= len(vector) <= LARGEST_VECTOR:
            raise InvalidInput("vector", f"must hold 1 to {LARGEST_VECTOR} bytes")


def _optional(p: JSON, name: str, largest: int) -> None:
    if p.get(name) is not None:
        text(p[name], name, largest, blank=True)


def _import_memories(
    context: Context,
    first: tuple[int, JSON, str],
    lines: Iterable[tuple[int, JSON, str]],
    progress: Progress,
) -> Imported:
    """Plain memories, one a line. One without an id gets the same id each time."""
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
            if txn.forgotten(memory.id) or txn.taken(memory.id):
                continue
            try:
                memories.record_in(context, txn, memory)
            except NotFound as error:
                raise InvalidInput(f"line {number}", f"{error}. Nothing was imported") from None
            new += 1
        return new

    new = context.write(work)
    context.store.indexing.wake()
    return Imported(memories=len(found), new=new, skipped=len(found) - new)


def _id_of(context: Context, value: JSON) -> str:
    return derived_id(json.dumps([context.view.workspace, value], sort_keys=True))


def _export_markdown(context: Context, file: IO[str]) -> int:
    found = memories.listed(context, Filter(states=tuple(State)), 1_000_000)
    file.write("# Memories\n")
    for memory in reversed(found):
        file.write("\n" + _markdown(memory))
    return len(found)


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


def checked_trace(trace: Trace, limits: Limits) -> Trace:
    if not isinstance(trace.trajectory, list | tuple):
        raise InvalidInput("trajectory", "must be a list of steps")
    if len(trace.trajectory) > limits.steps:
        raise InvalidInput("trajectory", f"has more than {limits.steps:,} steps")
    for step in trace.trajectory:
        _check_step(step, limits)
    if not isinstance(trace.metadata, dict):
        raise InvalidInput("metadata", "must be an object")
    for name in ("memories_used", "memories_learned"):
        if not isinstance(getattr(trace, name), list | tuple):
            raise InvalidInput(name, "must be a list of ids")
    _check_moment(trace.created_at, "created_at")
    _check_json(trace.metadata, "metadata", limits.nesting)
    trace = replace(
        trace,
        id=parse_id(trace.id),
        task=text(trace.task, "task", limits.content),
        outcome=None if trace.outcome is None else choice(Outcome, trace.outcome, "outcome"),
        final_score=None if trace.final_score is None else share(trace.final_score, "final_score"),
        memories_used=tuple(parse_id(i, "memories_used") for i in trace.memories_used),
        memories_learned=tuple(parse_id(i, "memories_learned") for i in trace.memories_learned),
        parent=None if trace.parent is None else parse_id(trace.parent, "parent"),
    )
    try:
        told = encode(trace.to_json())
        told.encode()
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput("metadata", f"cannot be stored as JSON: {error}") from None
    text(told, "trace", limits.trace)
    return trace


def _check_step(step: object, limits: Limits) -> None:
    if not isinstance(step, Step):
        raise InvalidInput("trajectory", f"holds a {type(step).__name__}; only steps are allowed")
    whole(step.iteration, "trajectory.iteration", least=0, most=1_000_000_000)
    text(step.action, "trajectory.action", limits.content)
    for name in ("content", "feedback"):
        if (value := getattr(step, name)) is not None:
            text(value, f"trajectory.{name}", limits.trace, blank=True)
    if step.score is not None:
        share(step.score, "trajectory.score")
    _check_moment(step.at, "trajectory.at")


def _check_moment(value: object, name: str) -> None:
    if value is not None and not isinstance(value, datetime):
        raise InvalidInput(name, f"must be a time, got {type(value).__name__}")


def _check_json(value: Any, name: str, depth: int) -> None:
    if depth < 0:
        raise InvalidInput(name, "is nested too deeply")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_json(item, f"{name}.{str(key)[:40]}", depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json(item, name, depth - 1)
