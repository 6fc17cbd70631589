"""The file of MCP's reference memory server: entities with observations, and relations.

One JSON object a line, as it writes them, or one object with both lists, as its `read_graph` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reasonbank.errors import InvalidInput
from reasonbank.learn.bring.found import Found, LeftOut, Note, text_of


def read(path: Path) -> Iterator[Found]:
    entities: dict[str, tuple[str, list[str]]] = {}
    relations: list[tuple[str, str, str]] = []
    seen = False
    for where, item in _items(text_of(path)):
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "entity" and _texts(item, "name", "entityType") and _is_list(item):
            seen = True
            told = entities.setdefault(item["name"], (item["entityType"], []))[1]
            for observed in item["observations"]:
                if isinstance(observed, str):
                    told.append(observed)
                else:
                    yield LeftOut(where=item["name"], reason="has an observation that is not text")
        elif kind == "relation" and _texts(item, "from", "to", "relationType"):
            seen = True
            relations.append((item["from"], item["relationType"], item["to"]))
        else:
            yield LeftOut(where=where, reason="is neither an entity nor a relation")
    if not seen:
        raise InvalidInput("path", f"{path} has no entities: another program wrote it")
    yield from _notes(entities, relations)


def _items(text: str) -> Iterator[tuple[str, Any]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("entities"), list):
        for kind, name in (("entity", "entities"), ("relation", "relations")):
            for number, item in enumerate(whole.get(name) or (), 1):
                told = {"type": kind} | item if isinstance(item, dict) else item
                yield f"{kind} {number}", told
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError):
                yield f"line {number}", None


def _texts(item: dict[str, Any], *names: str) -> bool:
    return all(isinstance(item.get(name), str) for name in names)


def _is_list(item: dict[str, Any]) -> bool:
    return isinstance(item.get("observations"), list)


def _notes(
    entities: dict[str, tuple[str, list[str]]], relations: list[tuple[str, str, str]]
) -> Iterator[Found]:
    """An observation is a memory; how its entity is related is told with each."""
    related: dict[str, list[str]] = {}
    for source, kind, target in relations:
        if source in entities and entities[source][1]:
            related.setdefault(source, []).append(f"{kind} {target}")
        else:
            told = f"{source} {kind} {target}"
            yield LeftOut(where=told, reason=f"nothing was observed of {source}")
    for name, (kind, observations) in entities.items():
        if not observations:
            yield LeftOut(where=name, reason="has no observations")
        about = "; ".join([f"About {name} ({kind})", *related.get(name, ())])
        for observed in dict.fromkeys(observations):
            yield Note(
                key=json.dumps([name, observed]),
                where=name,
                title=f"{name}: {observed}",
                about=about,
                content=observed,
                tags=(kind,),
            )
