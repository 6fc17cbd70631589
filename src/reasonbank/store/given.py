"""What a caller hands in: one of our nouns, or the same in plain words.

A memory may be one sentence, and everything may be a dictionary, with the names and the checks of
the nouns themselves. What a lesson leaves out is taken from its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from reasonbank.fields import from_json, moment, rule
from reasonbank.model import Filter, Memory, Outcome, Trace, to_micros
from reasonbank.store.context import Context
from reasonbank.store.derived import derived

GivenMemory: TypeAlias = Memory | Mapping[str, Any] | str
GivenTrace: TypeAlias = Trace | Mapping[str, Any]
GivenFilter: TypeAlias = Filter | Mapping[str, Any]

DERIVED = ("title", "description", "outcome")
"""The fields that a lesson may leave out."""


def memory(context: Context, given: GivenMemory) -> Memory:
    if isinstance(given, Memory):
        return given
    told = {"content": given} if isinstance(given, str) else dict(given)
    if left_out := missing(told):
        told |= _derived(context, told, left_out)
    return from_json(Memory, told)


def missing(told: Mapping[str, Any]) -> list[str]:
    """What is derived, unless it is given; what is given blank is refused."""
    return [name for name in DERIVED if name not in told]


def _derived(context: Context, told: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    limits = context.settings.limits
    content = told.get("content")
    if content is None:  # Which is said below, after what is no field at all.
        return dict.fromkeys(left_out, "")
    content = rule(Memory, "content").check(content, "content", limits)
    # Of a secret that is cut in two, neither half is known for one.
    found = derived(context.without_secrets(content), limits)._asdict()
    if told.get("error_context") is not None:
        found["outcome"] = Outcome.FAILURE
    return {name: found[name] for name in left_out}


def trace(given: GivenTrace) -> Trace:
    return given if isinstance(given, Trace) else from_json(Trace, dict(given))


def filter(given: GivenFilter | None) -> Filter | None:
    """In a dictionary a time may be one, or its ISO 8601 form."""
    if given is None or isinstance(given, Filter):
        return given
    told = dict(given)
    for name in ("created_after", "created_before"):
        if told.get(name) is not None and not isinstance(told[name], int):
            told[name] = to_micros(moment(told[name], name))
    return from_json(Filter, told)
