"""What may be wrong with a bank, and the command that repairs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from reasonbank import integrity, private
from reasonbank.embed.port import obstacle_of, runtime_of
from reasonbank.errors import ReasonBankError, StorageError
from reasonbank.jobs.embedder import renews
from reasonbank.opening import model_status, own_files, own_roles
from reasonbank.settings import Settings
from reasonbank.store.context import Context
from reasonbank.store.statistics import statistics
from reasonbank.store.vectors import still
from reasonbank.store.working import who

CLOCK_MINUTES = 5
"""So far the clocks of two machines may differ."""
FIND_OUT = "find out who changed the bank's file, or restore a backup"
NAMED = 3
STUCK_MINUTES = 10
"""From then on, a job that nobody works on is worth a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    status: str
    """ok, warn or fail."""
    found: str
    repair: str | None = None


def failed(name: str, error: Exception, repair: str) -> Check:
    return Check(name=name, status="fail", found=str(error), repair=repair)


def health(context: Context, *, deep: bool = True) -> list[Check]:
    """The parts that a bank needs.

    ``deep`` also reads the whole store and the embedder's file, and asks the model's server.
    Without it, this takes some milliseconds: for a server that is asked whether it is ready.
    """
    return [
        _store(context, deep=deep),
        *_forgotten(context),
        *_disk(context),
        _embedder(context, deep=deep),
        *_models(context, deep=deep),
        _queue(context),
        *_worker(context),
    ]


def verdict(checks: Iterable[Check]) -> str:
    """The worst of them: ok, warn or fail."""
    found = {check.status for check in checks}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def examine_bank(context: Context, *, log: bool = False) -> Iterator[Check]:
    """``log`` also reads the log from end to end: is it what was written?"""
    engine, version = context.store.ledger.engine
    yield Check(name=engine, status="ok", found=version)
    yield from health(context)
    yield from _private(context)
    yield _clock(context)
    if log:
        yield _log(context)
        yield from _tables(context)
    yield _vectors(context)
    yield Check(
        name="workspace",
        status="ok",
        found=f"{context.view.workspace} (team {context.view.team}, org {context.view.org})",
    )
    yield Check(name="belief", status="ok", found=context.settings.belief.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    status: Literal["healthy", "degraded", "unhealthy"]
    uptime: float
    memory_count: int
    cache_hit_rate: float | None
    checks: tuple[Check, ...]


_STATUS: dict[str, Literal["healthy", "degraded", "unhealthy"]] = {
    "ok": "healthy", "warn": "degraded", "fail": "unhealthy",
}  # fmt: skip


def report(context: Context) -> Health:
    """All that was found, under the names that agents know."""
    checks = list(examine_bank(context))
    numbers = statistics(context, everywhere=False)
    return Health(
        status=_STATUS[verdict(checks)],
        uptime=numbers.process.uptime,
        memory_count=numbers.memories,
        cache_hit_rate=numbers.cache_hit_rate,
        checks=tuple(checks),
    )


def _store(context: Context, *, deep: bool) -> Check:
    ledger = context.store.ledger
    try:
        ledger.read().place(context.view.workspace)
        problems = ledger.check(deep=deep)
    except ReasonBankError as error:
        return failed("store", error, "stop all programs that use it, then run: reasonbank doctor")
    if problems:
        repair = "reasonbank export backup.jsonl; then import it into a new bank"
        return Check(name="store", status="fail", found="; ".join(problems), repair=repair)
    if why := ledger.read().unused():
        repair = "set REASONBANK_URL or the setting url to the bank that is in use"
        return Check(name="store", status="fail", found=f"{ledger.url}: {why}", repair=repair)
    return Check(name="store", status="ok", found=ledger.url)


def _forgotten(context: Context) -> Iterator[Check]:
    with suppress(ReasonBankError):  # Said of the store already.
        if context.store.ledger.unscrubbed():
            found = "what was forgotten is still in the bank's files: a program reads an old state"
            repair = "end that program, then run: reasonbank maintain"
            yield Check(name="forgotten", status="warn", found=found, repair=repair)


def _disk(context: Context) -> Iterator[Check]:
    try:
        free = context.store.ledger.room()
    except OSError as error:
        found, repair = f"cannot tell: {error.strerror}", "see that the disk is there"
        yield Check(name="disk", status="warn", found=found, repair=repair)
        return
    if free is not None:
        shown = f"{free / 1e9:.1f} GB free"
        if free < 100e6:
            yield Check(name="disk", status="warn", found=shown, repair="free some space")
        else:
            yield Check(name="disk", status="ok", found=shown)


def _private(context: Context) -> Iterator[Check]:
    """What opening a bank could not put right: links, and files of other users."""
    bank = context.store.ledger.beside
    if bank is not None and (found := [*private.exposed(own_files(bank))]):
        repair = "see that they are yours, then: chmod go-rwx FILE"
        yield Check(name="private", status="warn", found="; ".join(found), repair=repair)


def _clock(context: Context) -> Check:
    """A clock may be wrong: here, or where an import comes from."""
    now = context.now()
    count, latest = context.read().from_the_future(now + CLOCK_MINUTES * 60_000_000)
    if not count:
        return Check(name="clock", status="ok", found="nothing is dated in the future")
    ahead = (latest - now) / 86_400_000_000
    return Check(
        name="clock",
        status="warn",
        found=f"{count} events are dated up to {ahead:,.1f} days in the future; they count as new",
        repair="set this machine's clock if it is wrong; nothing else needs to be done",
    )


def _log(context: Context) -> Check:
    if not context.store.ledger.whole:
        return Check(name="log", status="ok", found="not verified: a part of it is shown here")
    if wrong := context.read().broken_chain():
        found = "; ".join(each.found for each in wrong)
        return Check(
            name="log", status="fail", found=found, repair=f"reasonbank audit verify; {FIND_OUT}"
        )
    return Check(name="log", status="ok", found="as it was written")


def _tables(context: Context) -> Iterator[Check]:
    """Rows that were changed behind the program's back; in a large bank, some of them are looked
    at."""
    if not context.store.ledger.whole:
        return
    wrong, looked_at = integrity.glance(context)
    if wrong:
        found = "; ".join(each.found for each in wrong[:NAMED])
        more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        repair = f"reasonbank audit verify; {FIND_OUT}; then: reasonbank maintain --rebuild"
        yield Check(name="tables", status="fail", found=found + more, repair=repair)
    else:
        yield Check(name="tables", status="ok", found=f"as the log tells ({looked_at})")


def _models(context: Context, *, deep: bool) -> Iterator[Check]:
    """The main model, and those that single roles have of their own.

    Only ``deep`` asks their servers, which may be far away.
    """
    settings = context.settings
    if context.store.thinker is not None:
        yield Check(name="model", status="ok", found=f"{context.store.thinker.name}, handed in")
    elif settings.llm.provider == "none":
        yield Check(name="model", status="ok", found="none configured, and none is needed")
    else:
        yield _model("model", settings, deep=deep)
    for role, own in own_roles(settings).items():
        yield _model(f"model for {role}", own, deep=deep)


def _model(part: str, settings: Settings, *, deep: bool) -> Check:
    llm = settings.llm
    name = f"{llm.model} of {llm.provider}"
    if not deep:
        return Check(name=part, status="ok", found=name)
    try:
        answer = model_status(settings)
    except ReasonBankError as error:
        return failed(part, error, "set the variable that is named here, then start again")
    if isinstance(answer, str):
        return Check(
            name=part,
            status="warn",
            found=f"{name} does not answer ({answer}); sessions wait in the queue",
            repair="start the model's server, or correct its base_url",
        )
    if answer == 401:
        return Check(
            name=part, status="fail", found=f"{name} does not accept the key",
            repair="set a valid key, then start again",
        )  # fmt: skip
    if answer >= 500:
        found = f"{name} answers with status {answer}; sessions wait in the queue"
        return Check(name=part, status="warn", found=found, repair="look after that server")
    return Check(name=part, status="ok", found=f"{name} answers")


def _queue(context: Context) -> Check:
    store = context.store
    try:
        depth = store.ledger.read().queue.depth(None)
    except ReasonBankError as error:
        return failed("queue", error, "reasonbank doctor")
    waited = (store.clock() - depth.oldest) / 60e6 if depth.oldest is not None else 0.0
    found = f"{depth.waiting} waiting, {depth.running} running, {depth.dead} failed for good"
    if depth.waiting and not depth.running and waited > STUCK_MINUTES:
        found += f"; the oldest has waited for {waited:.0f} minutes"
        return Check(name="queue", status="warn", found=found, repair="reasonbank worker")
    if depth.dead:
        repair = "reasonbank queue list --state dead; then queue retry ID, or queue drop ID"
        return Check(name="queue", status="warn", found=found, repair=repair)
    return Check(name="queue", status="ok", found=found)


def _worker(context: Context) -> Iterator[Check]:
    """That nobody works is no fault: whatever queues something next says who does it."""
    with suppress(ReasonBankError):  # Said of the queue already.
        found = "nobody just now; any server, a worker and the command distil do what waits"
        if (works := who(context)) is not None:
            last = "no job yet" if works.last_run is None else f"last job {_told(works.last_run)}"
            found = f"{works} since {_told(works.since)}, {last}"
        yield Check(name="worker", status="ok", found=found)


def _told(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _embedder(context: Context, *, deep: bool) -> Check:
    embedder = context.store.indexing.embedder
    try:
        if deep:
            embedder.verify()
        embedder.embed(["does it answer?"])
    except ReasonBankError as error:
        built_in = context.settings.embed.model in ("minilm", "hashed")
        repair = "pip install --force-reinstall reasonbank"
        return failed("embedder", error, repair if built_in else "correct the settings of embed")
    if not embedder.semantic:
        return Check(
            name="embedder",
            status="warn",
            found=f"{embedder.name}: degraded, it knows nothing of meaning",
            repair="set embed.model to minilm, then run: reasonbank reindex",
        )
    where = "asked over HTTP" if context.settings.embed.model == "api" else "offline"
    found, runtime, obstacle = f"{embedder.name}, {where}", runtime_of(embedder), None
    if runtime is not None:
        found, obstacle = f"{found}, run by {runtime}", obstacle_of(embedder)
        if runtime != "numpy" and context.settings.embed.runtime == "auto":
            found += " (by numpy in hooks and short commands)"
    if obstacle is None:
        return Check(name="embedder", status="ok", found=found)
    if not obstacle.broken:
        found += f"; {obstacle.why}, with which servers and imports are quicker: {obstacle.install}"
        return Check(name="embedder", status="ok", found=found)
    # numpy gives the same answers: whoever asks whether a server is ready hears no complaint.
    status = "warn" if deep else "ok"
    return Check(
        name="embedder", status=status, found=f"{found}; {obstacle.why}", repair=obstacle.install
    )


def _vectors(context: Context) -> Check:
    indexing = context.store.indexing
    reading = context.read()
    new, foreign = reading.unembedded_count(indexing.embedder.name)
    near = indexing.nearly(reading)
    foreign -= sum(near.values())
    parts = []
    if new + foreign:
        parts.append(f"{new} memories not embedded, {foreign} by another model")
    if near:
        parts.append(f"{still(near, reading)}, and are searched by them")
    if foreign or near:
        parts.append(_renewal(context))
    if new + foreign:
        found = "; ".join(parts)
        return Check(name="vectors", status="warn", found=found, repair="reasonbank reindex")
    if near:
        return Check(name="vectors", status="ok", found=f"re-embedding: {'; '.join(parts)}")
    try:
        indexing.follow(searching=True)
        found = f"{len(indexing.index)} in step with the store"
        if indexing.behind:
            found = f"{len(indexing.index)} so far: the index is being filled from the store"
    except StorageError as error:
        repair = "see that it runs and can be reached; it catches up by itself"
        return Check(name="vectors", status="warn", found=str(error), repair=repair)
    told = "".join(f"; {remark}" for remark in indexing.about_index)
    return Check(name="vectors", status="ok", found=f"{found}{told}")


def _renewal(context: Context) -> str:
    at_once = "`reasonbank reindex` does it at once"
    if not renews(context):
        return "not embedded anew by itself, for each costs a call"
    if context.store.indexing.renewing.is_taken():
        return f"being embedded anew in the background; {at_once}"
    return f"a server or a worker embeds them anew in the background; {at_once}"
