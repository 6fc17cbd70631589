"""The learning report of a workspace: what memory is worth, whether forecasts can be
believed, which mistakes came again. Numbers that are not known are null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from reasonbank.learn.credits import names_of
from reasonbank.ledger.port import Filter, Reading
from reasonbank.model import JSON, State, Told, Trace, from_micros, to_micros
from reasonbank.proof.calibration import Calibration, calibrated
from reasonbank.proof.holdout import (
    Difference,
    NotCounted,
    by_memory,
    harmful,
    not_counted,
    overall,
    tasks_needed,
)
from reasonbank.proof.mistakes import InSessions, Repeated, in_sessions, repeated
from reasonbank.proof.replay import confidence_then
from reasonbank.store import memories, traces
from reasonbank.store.context import Context

EVERY = 100_000
WEEKS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``tasks`` ended, so many of them ``held_out``; ``not_counted`` says which tasks are not
    compared, and why. ``by_memory`` holds those whose worth can be told, best first; ``harmful``
    those of them that surely hurt. ``calibration`` is of the forecasts (``Hit.expected``),
    ``confidence`` of what confidence was when a task was given a memory. ``titles`` names the
    memories that occur. ``tasks_needed`` is how many more it takes until memory is proven to help
    or to hurt, if they go as those before. ``learned`` counts the memories of each of the last
    weeks, which are named by their Mondays."""

    workspace: str
    tasks: int
    held_out: int
    share: float
    overall: Difference
    by_memory: tuple[tuple[str, Difference], ...]
    harmful: tuple[str, ...]
    calibration: Calibration
    mistakes: Repeated
    titles: dict[str, str]
    in_sessions: InSessions = field(default_factory=InSessions)
    confidence: Calibration = field(default_factory=lambda: calibrated(()))
    not_counted: NotCounted = field(default_factory=NotCounted)
    tasks_needed: int | None = None
    learned: tuple[tuple[date, int], ...] = ()

    def to_json(self) -> JSON:
        return {
            "workspace": self.workspace,
            "tasks": self.tasks,
            "held_out": self.held_out,
            "hold_out_share": self.share,
            "memory": asdict(self.overall),
            "needed": {"tasks": self.tasks_needed, "hold_out": self.share},
            "not_counted": asdict(self.not_counted),
            "by_memory": [
                {"id": id, "title": self.titles.get(id), **asdict(found)}
                for id, found in self.by_memory
            ],
            "harmful": [{"id": id, "title": self.titles.get(id)} for id in self.harmful],
            "calibration": asdict(self.calibration),
            "confidence_calibration": asdict(self.confidence),
            "repeated_mistakes": {
                "failures": self.mistakes.failures,
                "warned": self.mistakes.warned,
                "rate": self.mistakes.rate,
                "by_warning": [
                    {"id": id, "title": self.titles.get(id), "count": count}
                    for id, count in self.mistakes.by_warning
                ],
                "in_sessions": {
                    **asdict(self.in_sessions.all),
                    "by_warning": [
                        {"id": id, "title": self.titles.get(id), **asdict(met)}
                        for id, met in self.in_sessions.by_warning
                    ],
                },
            },
            "learned": [{"week": str(week), "count": count} for week, count in self.learned],
            "sentences": sentences(self),
        }


def report(context: Context) -> Report:
    context.store.try_to_flush()
    reading = context.read()
    tasks = reading.tasks(context.view)
    ended = [task for task in tasks if task.told is not Told.NOT]
    worth = {id: d for id, d in by_memory(tasks).items() if d.difference is not None}
    # Of what was forgotten, or is out of sight, nothing can be learned any more.
    there = reading.titles(context.view, [*worth])
    found = {id: d for id, d in worth.items() if id in there}
    ranked = sorted(found.items(), key=lambda entry: (-(entry[1].difference or 0.0), entry[0]))
    warnings = Filter(warnings_only=True, states=tuple(State))
    known, told = memories.listed(context, warnings, EVERY), traces.listed(context, EVERY)
    mistakes = repeated(known, told)
    met = in_sessions(known, told, _shown(context, reading, told))
    worth_of_all = overall(tasks)
    named = [*found, *(id for id, _ in (*mistakes.by_warning, *met.by_warning))]
    return Report(
        workspace=context.view.workspace,
        tasks=len(ended),
        held_out=sum(task.held_out for task in ended),
        share=context.settings.proof.hold_out,
        overall=worth_of_all,
        by_memory=tuple(ranked),
        harmful=tuple(harmful(found)),
        calibration=calibrated(reading.forecasts(context.view)),
        confidence=calibrated(confidence_then(reading, context.view, context.trust(reading))),
        mistakes=mistakes,
        titles=dict(reading.titles(context.view, named)),
        in_sessions=met,
        not_counted=not_counted(tasks),
        tasks_needed=tasks_needed(worth_of_all),
        learned=tuple(_learned(context, reading)),
    )


def _learned(context: Context, reading: Reading) -> Iterator[tuple[date, int]]:
    """By week, oldest first, this one last."""
    now = from_micros(context.now())
    monday = now.date() - timedelta(days=now.weekday())
    weeks = [monday - timedelta(weeks=ago) for ago in range(WEEKS - 1, -1, -1)]
    starts = [to_micros(datetime.combine(week, time(), UTC)) for week in weeks]
    since = [reading.recorded_since(context.view, start) for start in starts]
    for week, count, later in zip(weeks, since, [*since[1:], 0], strict=True):
        yield week, count - later


def _shown(
    context: Context, reading: Reading, told: Sequence[Trace]
) -> dict[str, dict[str, datetime]]:
    by_session = reading.shown(context.view)
    return {
        trace.id: {id: from_micros(at) for name in names for id, at in by_session[name].items()}
        for trace in told
        if (names := [name for name in names_of(trace) if name in by_session])
    }


def sentences(found: Report) -> list[str]:
    """The report in words: what is known, and what it would take to know more."""
    said = [
        f"{_many(found.tasks, 'task')} ended, {found.held_out} of them without memory on purpose."
    ]
    worth = found.overall
    if worth.difference is None:
        said.append(
            "What memory is worth cannot be told yet: set proof.hold_out (0.1 holds out every "
            "tenth task), name tasks with a session, and report how each one ended."
        )
    else:
        said.append(
            f"Where memory was found, {worth.with_succeeded} of {worth.with_memory} tasks with it "
            f"succeeded, and {worth.without_succeeded} of {worth.without} that went without: "
            f"memory makes a difference of about {100 * worth.difference:+.0f} points "
            f"(95 % from {100 * (worth.low or 0):+.0f} to {100 * (worth.high or 0):+.0f})."
        )
    said += _left_out(found.not_counted) if found.held_out else []
    said += [f"Hurts: {found.titles.get(id, id)} ({id})." for id in found.harmful]
    calibration = found.calibration
    if calibration.brier is None:
        said.append("Forecasts were not put to the test yet: no task reported on a memory.")
    else:
        said.append(
            f"Forecasts of {_many(calibration.count, 'use')} were off by "
            f"{calibration.expected_error:.3f} on average (Brier score {calibration.brier:.3f})."
        )
    confidence = found.confidence
    if confidence.brier is not None:
        said.append(
            f"Confidence, which is no forecast, was off by {confidence.expected_error:.3f} "
            f"(Brier score {confidence.brier:.3f}) where a task was given a memory."
        )
    mistakes = found.mistakes
    if mistakes.failures:
        said.append(
            f"{mistakes.warned} of {mistakes.failures} failures were ones that a warning "
            "was stored for."
        )
    met = found.in_sessions.all
    if met.again or met.avoided:
        said.append(
            f"In {_many(met.again, 'session')} a command failed as a stored warning says, in "
            f"{met.although_shown} of them although it was shown; {met.avoided} times a warning "
            "was shown and its failure did not come."
        )
    return said


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _left_out(of: NotCounted) -> list[str]:
    reasons = {
        "for which nothing was found": of.found_nothing,
        "from when no task was held out": of.not_drawn,
        "with memory that have not said how they ended": of.not_ended_with,
        "without that have not": of.not_ended_without,
        "told of by single memories only; report the session as well": of.told_by_memory,
    }
    told = "; ".join(f"{count} {why}" for why, count in reasons.items() if count)
    return [f"Not compared: {told}."] if told else []
