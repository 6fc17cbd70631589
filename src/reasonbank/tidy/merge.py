"""From several memories that say the same to one: written by a model, or by rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from reasonbank.errors import InvalidReply
from reasonbank.fence import Prompt, fixed, prompt
from reasonbank.fields import LIMITS, Limits
from reasonbank.llm.port import Message, system, user
from reasonbank.llm.prompts import words
from reasonbank.llm.reply import closed, one_of, string
from reasonbank.model import JSON, ErrorContext, Memory, Outcome, Source, Standing, labels
from reasonbank.safety.risky import risks
from reasonbank.search.rivals import contradicts_itself
from reasonbank.search.sentences import unsaid
from reasonbank.store.probation import told as all_text
from reasonbank.store.vectors import without_attribution

MOST_TAGS = 16
BONUS = 0.1
"""The most that agreement of the sources adds to the confidence of the merge."""
NO_AGREEMENT = 0.25
"""The standard deviation at which nothing is added."""
HIGHEST = 0.95
"""Nothing starts out certain: evidence could not move it."""
ATTRIBUTION = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A memory that is to be merged, how low its confidence might be, and whose it is."""

    memory: Memory
    lower_bound: float
    hand: str | None = None


def best(members: Sequence[Member]) -> Member:
    return max(
        members, key=lambda m: (m.lower_bound, m.memory.usage_count, m.memory.revision, m.memory.id)
    )


def confidence(members: Sequence[Memory], *, hands: int) -> float:
    """The mean, weighted by use, and up to 0.1 more the more the sources agree.

    One hand that says a thing twice does not agree with itself: then, and of what is not confirmed
    yet, it is the least of the sources'.
    """
    if hands < 2 or any(memory.standing is not Standing.CONFIRMED for memory in members):
        return min(0.5 if memory.confidence is None else memory.confidence for memory in members)
    weights = [memory.usage_count + 1 for memory in members]
    values = [0.5 if memory.confidence is None else memory.confidence for memory in members]
    total = math.fsum(weights)
    mean = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / total
    spread = math.fsum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)) / total
    agreement = max(0.0, 1.0 - math.sqrt(spread) / NO_AGREEMENT)
    return round(min(HIGHEST, mean + BONUS * agreement), 6)


def _common(members: Sequence[Memory], name: str) -> Any:
    """What all that know it agree on."""
    values = {value for memory in members if (value := getattr(memory, name)) is not None}
    return values.pop() if len(values) == 1 else None


def _frame(id: str, members: Sequence[Memory], base: Memory) -> Memory:
    """What no model decides: where it belongs, and what it was made from."""
    return Memory(
        id=id,
        title=base.title,
        description=base.description,
        content=base.content,
        outcome=base.outcome,
        error_context=_error(members, base),
        parents=tuple(memory.id for memory in members),
        scope=base.scope,
        source=Source.CONSOLIDATED,
        **{name: _common(members, name) for name in labels()},
    )


def _error(members: Sequence[Memory], base: Memory) -> ErrorContext | None:
    """The base's warning, with the patterns and the advice of the others."""
    warnings = [m.error_context for m in (base, *members) if m.error_context and m is not None]
    if not warnings:
        return None
    first = warnings[0]

    def joined(name: str) -> str:
        told: list[str] = []
        for warning in warnings:
            value = getattr(warning, name)
            if unsaid(value, told) and len("; ".join((*told, value))) <= LIMITS.error_text:
                told.append(value)
        return "; ".join(told) or getattr(first, name)

    return replace(
        first,
        failure_pattern=joined("failure_pattern"),
        corrective_guidance=joined("corrective_guidance"),
    )


def _tags(members: Sequence[Memory], limits: Limits) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag for m in members for tag in m.tags))[
        : min(MOST_TAGS, limits.tags)
    ]


def _attributed(description: str, attribution: str, limits: Limits) -> str:
    attribution = " ".join(attribution.split())[:ATTRIBUTION]
    return f"{description[: limits.description - len(attribution) - 1]}\n{attribution}"


def by_rules(id: str, members: Sequence[Member], limits: Limits = LIMITS) -> Memory:
    """The member that evidence backs best, with what only the others say."""
    kept = best(members).memory
    memories = [m.memory for m in members]
    others = [m for m in memories if m.id != kept.id]
    content, added, omitted = kept.content, 0, 0
    for other in others:
        points = unsaid(other.content, (kept.title, kept.description, content))
        if not points:
            continue
        part = "\n".join((f"\n\nAlso, from “{other.title}”:", *(f"- {point}" for point in points)))
        if len(content) + len(part) > limits.content:
            omitted += 1
            continue
        content += part
        added += 1
    told = f"Merged from {len(members)} memories"
    told += f"; points of {added} were added." if added else ", which all say this."
    if omitted:
        told += f" {omitted} did not fit; the archive has them."
    return replace(
        _frame(id, memories, kept),
        description=_attributed(without_attribution(kept), told, limits),
        content=content,
        tags=_tags([kept, *others], limits),
    )


def schema(members: Sequence[Member]) -> JSON:
    return closed(
        {
            "title": string(LIMITS.title) | {"pattern": r"\S"},
            "description": string(LIMITS.description - ATTRIBUTION - 1) | {"pattern": r"\S"},
            "content": string(LIMITS.content) | {"pattern": r"\S"},
            "tags": {"type": "array", "items": string(LIMITS.tag), "maxItems": MOST_TAGS},
            "outcome": one_of(_outcomes(members)),
            "attribution": string(ATTRIBUTION),
            "contradiction": string(1_000, least=0),
            "different": string(1_000, least=0),
        }
    )


def _outcomes(members: Sequence[Member]) -> list[Outcome]:
    return sorted({m.memory.outcome for m in members})


def question(members: Sequence[Member]) -> list[Message]:
    told: list[Prompt] = []
    for number, member in enumerate(members, 1):
        memory = member.memory
        known = fixed(
            "[memory {number}] confidence {confidence}, used {used} times, outcome {outcome}",
            number=number, confidence=round(memory.confidence or 0, 2), used=memory.usage_count,
            outcome=memory.outcome,
        )  # fmt: skip
        told += [known, memory.format_for_prompt()]
    form = words("tidy", "merge", outcomes=_outcomes(members))
    return [system(form), user(prompt(*told))]


def by_answer(id: str, members: Sequence[Member], answer: JSON, limits: Limits = LIMITS) -> Memory:
    """The memory that a valid answer describes."""
    kept = best(members).memory
    return replace(
        _frame(id, [m.memory for m in members], kept),
        title=answer["title"],
        description=_attributed(answer["description"], answer["attribution"], limits),
        content=answer["content"],
        tags=tuple(answer["tags"]),
        outcome=type(kept.outcome)(answer["outcome"]),
    )


def added(memory: Memory, members: Sequence[Member]) -> InvalidReply | None:
    """Why a merge cannot take the place of memories that ask for less than it does."""
    known = {risk.what for m in members for risk in risks("\n".join(all_text(m.memory)))}
    new = [risk for risk in risks("\n".join(all_text(memory))) if risk.what not in known]
    if not new:
        return None
    return InvalidReply(
        f"none of the memories {new[0].action} like this: {new[0].snippet}", reply=memory.content
    )


def refused(
    answer: JSON, nearness: float, least: float, members: Sequence[Member] = ()
) -> InvalidReply | None:
    """Why an answer that fits the schema cannot take the place of the memories."""
    if contradicts_itself(answer["content"]) and not any(
        contradicts_itself(member.memory.content) for member in members
    ):
        return InvalidReply(
            "the merged memory states two values of one fact; keep one of them",
            reply=str(answer)[:2000],
        )
    if nearness < least:
        return InvalidReply(
            f"the merged memory is not about what the memories say (similarity {nearness:.2f}, "
            f"at least {least:.2f} is needed)",
            reply=str(answer)[:2000],
        )
    return None
