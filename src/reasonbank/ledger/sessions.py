"""A trace as the log tells it: as it was stored, with what was added and found out since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from reasonbank.ledger.events import EventType
from reasonbank.model import JSON, Outcome, Trace
from reasonbank.trust.experience import shares
from reasonbank.values import valueclass

LEARNED_STEPS = "learned_steps"
"""What the metadata of a trace call the number of steps that were learned from; no such entry if
none ever were."""

TAKEN_BACK = "a git revert"
"""Who says that the work of a session was undone: that outranks how it had looked before."""

BEFORE_TOOL, AFTER_TOOL = "before-tool", "after-tool"
MOMENTS = ("prompt", BEFORE_TOOL, AFTER_TOOL)
"""At which hooks give memories."""


def given_at(moment: str, session: str) -> str:
    """The subject under which it is noted what a hook gave; what was asked for has none."""
    return f"hook:{moment}:{session}"


def learned_steps(trace: Trace) -> int:
    return int(trace.metadata.get(LEARNED_STEPS, 0))


def is_learned(trace: Trace) -> bool:
    """Whether all of it was learned from, be it much or little."""
    return LEARNED_STEPS in trace.metadata and learned_steps(trace) >= len(trace.trajectory)


@valueclass(frozen=True, slots=True, kw_only=True)
class Giving:
    """What a session was given at one moment, the best first; a hook says which ``moment``.

    ``weak`` are those of the ``memories`` that came as weak matches.
    """

    at: datetime
    memories: tuple[str, ...]
    moment: str = ""
    weak: tuple[str, ...] = ()

    @property
    def sharing(self) -> list[str]:
        """Those that the outcome of the whole session speaks of."""
        return [id for id, share in shares(self.memories, self.weak).items() if share > 0]


@dataclass(slots=True)
class _Judged:
    steps: int
    told: JSON


def trace_of(events: Iterable[tuple[str, JSON]]) -> Trace | None:
    """From types and payloads, in their order. Of two that stored one trace, the first stands;
    what continues it (``after`` so many of its steps) takes the place of what came there before."""
    trace: Trace | None = None
    learned: int | None = None
    judged: _Judged | None = None
    confirmed: list[str] = []
    for type, payload in events:
        if type == EventType.TRACED:
            told = Trace.from_json(payload["trace"])
            after = payload.get("after")
            if trace is None:
                trace = told
            elif after is not None:
                trace = _continued(trace, told, after)
            else:
                continue
            if learned is not None and after is not None:
                learned = min(payload.get("learned", min(learned, after)), len(trace.trajectory))
        elif trace is not None:
            learned = min(payload.get("steps", len(trace.trajectory)), len(trace.trajectory))
            known = dict.fromkeys((*trace.memories_learned, *payload["ids"]))
            trace = replace(trace, memories_learned=tuple(known))
            confirmed = payload.get("confirmed") or confirmed
            # Who has seen more of it knows better how it ended, and git may see it later.
            later = payload.get("by") == TAKEN_BACK
            if payload.get("outcome") and (judged is None or judged.steps < learned + later):
                judged = _Judged(learned, payload)
    if trace is not None and confirmed:
        trace = replace(trace, metadata={**trace.metadata, "confirmed": confirmed})
    return trace and _with_findings(trace, learned, judged)


def _continued(trace: Trace, more: Trace, after: int) -> Trace:
    return replace(
        more,
        id=trace.id,
        trajectory=(*trace.trajectory[:after], *more.trajectory),
        memories_used=tuple(dict.fromkeys((*trace.memories_used, *more.memories_used))),
        memories_learned=tuple(dict.fromkeys((*trace.memories_learned, *more.memories_learned))),
        created_at=trace.created_at,
    )


def _with_findings(trace: Trace, learned: int | None, judged: _Judged | None) -> Trace:
    metadata = {key: value for key, value in trace.metadata.items() if key != LEARNED_STEPS}
    if learned is not None:
        metadata[LEARNED_STEPS] = learned
    # A session that has gone on since may have ended otherwise.
    if judged is None or trace.outcome is not None or judged.steps < len(trace.trajectory):
        return replace(trace, metadata=metadata)
    told = judged.told
    return replace(
        trace,
        outcome=Outcome(told["outcome"]),
        final_score=told.get("score") if trace.final_score is None else trace.final_score,
        metadata=metadata | {"judged": {n: told[n] for n in ("by", "reason") if told.get(n)}},
    )
