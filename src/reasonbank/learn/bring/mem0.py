"""What mem0 answers to `get_all`, or exports: a list of memories, on its own or in an object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reasonbank.errors import InvalidInput
from reasonbank.learn.bring.found import Found, LeftOut, Note, text_of
from reasonbank.store import front_matter

LISTS = ("results", "memories", "data")
TEXTS = ("memory", "content", "text", "data")
OWNERS = ("user_id", "agent_id", "app_id")


def read(path: Path) -> Iterator[Found]:
    try:
        whole = json.loads(text_of(path))
    except (ValueError, RecursionError):
        raise InvalidInput("path", f"{path} is not JSON; it may be cut off") from None
    items = whole
    if isinstance(whole, dict):
        items = next((whole[name] for name in LISTS if isinstance(whole.get(name), list)), None)
    if not isinstance(items, list):
        raise InvalidInput(
            "path", f"{path} has no list of memories; write what `get_all` answers to a file"
        )
    for number, item in enumerate(items, 1):
        yield _note(item, f"memory {number}")
    for relation in (whole.get("relations") or ()) if isinstance(whole, dict) else ():
        yield LeftOut(where=_told(relation), reason="is a relation, not a memory")


def _note(item: Any, where: str) -> Found:
    if isinstance(item, str):
        return Note(key=item, where=where, content=item)
    told = item if isinstance(item, dict) else {}
    content = next((told[name] for name in TEXTS if isinstance(told.get(name), str)), None)
    if content is None:
        return LeftOut(where=where, reason="has no text")
    id = told.get("id")
    owners = [f"{name[:-3]} {told[name]}" for name in OWNERS if isinstance(told.get(name), str)]
    return Note(
        key=id if isinstance(id, str) and id else content,
        where=id if isinstance(id, str) and id else where,
        content=content,
        about=f"{content} ({', '.join(owners)})" if owners else None,
        tags=tuple(front_matter.words(told.get("categories"))),
    )


def _told(relation: Any) -> str:
    if not isinstance(relation, dict):
        return str(relation)[:80]
    parts = (relation.get(name) for name in ("source", "relationship", "target"))
    return " ".join(str(part) for part in parts if part)[:80] or "a relation"
