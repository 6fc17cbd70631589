"""Schemas as a model reads them, in every session: each character has to tell something."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

# pydantic titles every field with its own name; who exceeds a length is told so.
_UNTOLD = ("title", "minLength", "maxLength", "maxItems", "format")


def taken(schema: dict[str, Any], named: Collection[str] = ()) -> dict[str, Any]:
    """What a tool takes, or of that only what is ``named``.

    That an optional parameter may also be null is true, but need not be told: it may be left
    out. That a part takes nothing else is said by the error of whoever sends it.
    """
    told: dict[str, Any] = _lean(schema, nullable=False)
    for part in told.get("$defs", {}).values():
        part.pop("description", None)  # Whoever refers to it says what it is for.
        part.pop("additionalProperties", None)
    if named:
        # More is taken than is told.
        told.pop("additionalProperties", None)
        told["properties"] = {name: told["properties"][name] for name in named}
    return told


def answered(schema: dict[str, Any]) -> dict[str, Any]:
    """What a tool answers; all of it is always there."""
    told: dict[str, Any] = _lean(schema, nullable=True)
    told.pop("required", None)
    return told


def _lean(schema: Any, *, nullable: bool) -> Any:
    if isinstance(schema, list):
        return [_lean(part, nullable=nullable) for part in schema]
    if not isinstance(schema, dict):
        return schema
    told = {
        name: {key: _lean(part, nullable=nullable) for key, part in value.items()}
        if name in ("properties", "$defs")
        else _lean(value, nullable=nullable)
        for name, value in schema.items()
        if name not in _UNTOLD
    }
    if told.get("additionalProperties") is True:
        del told["additionalProperties"]  # As it is if nothing is said.
    if nullable or told.get("default", ...) is not None:
        return told
    del told["default"]
    match told:
        case {"anyOf": [kind, {"type": "null"}]}:
            del told["anyOf"]
            return kind | told
    return told
