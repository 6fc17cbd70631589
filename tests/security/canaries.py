"""27 workspaces whose every text is a word that exists once, and a watch over who sees which."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reasonbank.access import TokenStore
from reasonbank.bank import Bank
from reasonbank.ledger.events import EventType
from reasonbank.model import ErrorContext, Memory, Outcome, Principal, Scope, Trace, new_id
from reasonbank.settings import Embed, Settings

WORD = re.compile(r"7[a-z]{12}7")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIDES = ("read", "write", "admin")
HASHED = Settings(embed=Embed(model="hashed"))


@dataclass(eq=False)
class Place:
    """A workspace: one project of one team of one org."""

    org: int
    team: int
    project: int
    path: str
    id: str = ""
    name: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    """Those that are bound to it, by what they may do."""
    sent: set[str] = field(default_factory=set)
    """Words and ids of others that somebody here has sent: they may come back."""

    def same(self, other: Place, scope: Scope) -> bool:
        match scope:
            case Scope.PROJECT:
                return self is other
            case Scope.TEAM:
                return (self.org, self.team) == (other.org, other.team)
            case Scope.ORG:
                return self.org == other.org

    @property
    def settings(self) -> Settings:
        # Teams of several orgs are called the same.
        team, org = f"team-{self.team}", f"org-{self.org}"
        return Settings(embed=Embed(model="hashed"), team=team, org=org)


@dataclass
class Canaries:
    """All words, and who may see each; all of it in one bank."""

    folder: Path
    rng: random.Random
    url: str = ""
    """Where the bank is; if nothing is said, in a file in the folder."""
    places: list[Place] = field(default_factory=list)
    words: dict[str, tuple[Place, Scope]] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    """Of each workspace: words to ask for. They are sent, so they prove nothing."""
    unbound: dict[str, str] = field(default_factory=dict)
    spare_tokens: list[str] = field(default_factory=list)
    tickets: dict[str, list[str]] = field(default_factory=dict)
    sessions: dict[str, list[str]] = field(default_factory=dict)
    gaps: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.url = self.url or f"sqlite:///{self.folder}/bank.db"

    def word(self, owner: Place, scope: Scope = Scope.PROJECT) -> str:
        word = f"7{''.join(self.rng.choices(LETTERS, k=12))}7"
        self.words[word] = (owner, scope)
        return word

    def hidden(self, word: str, viewer: Place) -> bool:
        owner, scope = self.words.get(word, (viewer, Scope.PROJECT))
        return not viewer.same(owner, scope)

    def at(self, workspace: str) -> Place | None:
        return next((place for place in self.places if place.id == workspace), None)

    # Furnishing

    def settle(self, each: int = 3) -> None:
        """So many projects in a team, teams in an org, and orgs."""
        for org in range(each):
            for team in range(each):
                for project in range(each):
                    self.places.append(Place(org, team, project, ""))
        for place in self.places:
            place.path = str(self.folder / "places" / self.word(place))
            Path(place.path).mkdir(parents=True)
            self.furnish(place)
        with self.open(self.places[0].path) as bank:
            for place in self.places:
                self.mix(bank.within(place.path), place)
            for place in self.places:
                self.agree(bank.within(place.path), place)
            tokens = TokenStore(bank)
            for side in SIDES:
                self.unbound[side] = tokens.create(scope=side, name=f"all {side}").token
                spare = tokens.create(scope=side, workspaces=[self.places[0].id])
                self.spare_tokens.append(spare.id)

    def open(self, path: str, settings: Settings = HASHED) -> Bank:
        """As a person: what an agent says is told to no other project before it is confirmed."""
        return Bank.open(self.url, workspace=path, settings=settings, principal=Principal.PERSON)

    def furnish(self, place: Place) -> None:
        """All that one workspace has by itself."""
        with self.open(place.path, place.settings) as bank:
            place.id = bank.view.workspace
            for scope in Scope:
                author = self.word(place, scope)
                bank.seen_by(author=author).record(self.lesson(place, scope))
            own = bank.record(self.lesson(place))
            bank.archive(own.id, reason=self.word(place))
            place.name = self.word(place)
            bank.name_workspace(place.id, place.name)
            task = {"task": self.word(place), "metadata": {"by": self.word(place)}}
            bank.store_trace(Trace.from_json(task | {"outcome": "success"}))
            for job in [bank.distil(Trace.from_json({"task": self.word(place)})) for _ in "ab"]:
                now = bank.store.clock()
                held = bank.context.write(
                    lambda txn, id=job.id, now=now: txn.queue.claim_one(id, "worker", now, now)
                )
                error = self.word(place)
                bank.context.write(lambda txn, held=held, e=error: txn.queue.fail(held, e, None))
            ticket = bank.distil_prepare(Trace.from_json({"task": self.word(place)})).ticket
            self.tickets[place.id] = [str(ticket)]
            asked = f"{self.word(place)} {self.word(place)}"
            bank.search(asked)
            self.gaps[place.id] = [asked]
            self.alike(bank, place)
            self._bind(bank, place)

    def _bind(self, bank: Bank, place: Place) -> None:
        tokens = TokenStore(bank)
        for side in SIDES:
            # Every third may share with its team.
            may = ["share-team"] if side == "write" and place.project == 0 else []
            name = f"{side} {self.rng.randrange(10**9)}"
            made = tokens.create(scope=side, workspaces=[place.id], name=name, may=may)
            place.tokens[side] = made.token

    def lesson(self, place: Place, scope: Scope = Scope.PROJECT, **known: Any) -> Memory:
        """``scope`` is whose words they are."""
        key = self.word(place, scope)
        self.keys.setdefault(place.id, []).append(key)
        failed = self.rng.random() < 0.2
        error = ErrorContext(error_type="Timeout", failure_pattern=self.word(place, scope),
                             corrective_guidance=self.word(place, scope))  # fmt: skip
        return Memory(
            **{
                "title": f"{key} {self.word(place, scope)}",
                "description": f"{self.word(place, scope)} when {key} is near",
                "content": " ".join(self.word(place, scope) for _ in range(3)),
                "outcome": Outcome.FAILURE if failed else Outcome.SUCCESS,
                "error_context": error if failed else None,
                "scope": scope,
                "tags": (self.word(place, scope),),
                "source_session": self.word(place, scope),
            }
            | known
        )

    def alike(self, bank: Bank, place: Place) -> None:
        """Two that say the same, and become one: a batch."""
        first = self.lesson(place, source_session=None, outcome=Outcome.SUCCESS, error_context=None)
        for _ in "ab":
            bank.record(replace(first, id=new_id()))
        bank.consolidate(force=True)
        # These are left to whoever comes by, with the links that others have drawn to them.
        shared = self.lesson(place, Scope.TEAM, outcome=Outcome.SUCCESS, error_context=None)
        for _ in "ab":
            bank.record(replace(shared, id=new_id()))

    def mix(self, bank: Bank, place: Place) -> None:
        """What one has to do with what others shared: opinions, links, descendants."""
        mine = next(m for m in bank.memories(limit=100) if m.workspace == place.id)
        shared = [m for m in bank.memories(limit=100) if m.workspace != place.id]
        for memory in self.rng.sample(shared, min(4, len(shared))):
            rater = bank.seen_by(author=self.word(place))
            session = self.word(place)
            self.sessions.setdefault(place.id, []).append(session)
            helpful = self.rng.random() < 0.5
            rater.feedback(memory.id, helpful=helpful, comment=self.word(place), session=session)
            rater.outcome(memory.id, succeeded=helpful, session=session)
            bank.link(mine.id, memory.id, type=self.rng.choice(["similar", "contradicts"]))
            bank.record(self.lesson(place, parents=(memory.id, mine.id)))
            team = [m for m in bank.memories(limit=100)
                    if m.workspace == place.id and m.scope is not Scope.PROJECT]  # fmt: skip
            bank.link(self.rng.choice(team).id, memory.id, type="similar")
        session = self.word(place)
        self.sessions[place.id].append(session)
        bank.search(self.rng.choice(self.keys[place.id]), session=session)
        bank.credit(session, succeeded=True)

    def agree(self, bank: Bank, place: Place) -> None:
        """Two projects of a team know the same and trust it; the first shares it with the team."""
        if place.project == 2:
            return
        author = self.word(place)
        if place.project == 0:
            self.common = replace(
                self.lesson(place, Scope.TEAM, outcome=Outcome.SUCCESS, error_context=None),
                scope=Scope.PROJECT,
            )
        lesson = bank.seen_by(author=author).record(replace(self.common, id=new_id()))
        for _ in range(12):
            other = bank.seen_by(author=self.word(place))
            other.feedback(lesson.id, helpful=True, session=self.word(place))
        if place.project == 1:
            bank.embed_new()
            # From the view of the other one, whose turn it was before there were two.
            first = next(p for p in self.places if p.project == 0 and p.same(place, Scope.TEAM))
            assert bank.within(first.path).promote().promoted


# Table by table: a key, the workspace that owns the row, and the row.
_ROWS = {
    "memories": "select id, workspace, scope, state, revision, lesson, merged_into, stage,"
    " standing, initial, author, num from memories",
    "evidence": "select key, workspace, num, kind, positive, at, session, rater, comment, share"
    " from evidence",
    "opinions": "select workspace || num, workspace, num, standing from opinions",
    "tally": "select num || workspace || kind || positive || day, workspace, num, count from tally",
    "weights": "select workspace, workspace, counts from weights",
    "authors": "select workspace || author, workspace, memories, helped, failed from authors",
    "tasks": "select workspace || session, workspace, succeeded, reporter, withheld from tasks",
    "links": "select links.source || target || type, m.workspace, target, strength from links"
    " join memories m on m.id = links.source",
    "kin": "select child || parent, m.workspace, 1 from kin join memories m on m.id = child",
    "traces": "select traces.id, traces.workspace, payload, outcome from traces"
    " join events on seq = event",
    "learned": "select id, workspace, payload from events where what = 'trace.learned'",
    "jobs": "select id, workspace, kind, state, attempts, claim, error from jobs",
    "misses": "select workspace || question, workspace, question from misses",
    "workspaces": "select id, id, path, name, team, org from workspaces",
    "tokens": "select id, '', name, scope, workspaces, may, revoked_at from tokens",
}

Rows = dict[str, dict[Any, tuple[Any, ...]]]


class Looking:
    """Reads the bank's tables beside everybody else."""

    def __init__(self, url: str) -> None:
        self._db: Any
        if url.startswith("sqlite:"):
            self._db = sqlite3.connect(f"file:{url.removeprefix('sqlite:///')}?mode=ro", uri=True)
            self._changes, self._mark = "pragma data_version", "?"
        else:
            import psycopg

            self._db = psycopg.connect(url, autocommit=True, options="-c search_path=reasonbank")
            self._changes, self._mark = "select pg_current_wal_insert_lsn()", "%s"
        self._version: Any = None
        self._rows: Rows = {}
        self.seq = self._newest()

    def close(self) -> None:
        self._db.close()

    def _newest(self) -> int:
        return int(self._db.execute("select coalesce(max(seq), 0) from events").fetchone()[0])

    def rows(self) -> Rows:
        version = self._db.execute(self._changes).fetchone()[0]
        if version != self._version:
            self._version = version
            self._db.execute("begin")
            self._rows = {
                name: {row[0]: row[1:] for row in self._db.execute(sql)}
                for name, sql in _ROWS.items()
            }
            self._db.execute("commit")
        return self._rows

    def new_events(self) -> list[tuple[str, str, str]]:
        """What, about what, by which workspace: since this was asked last."""
        last = self._newest()
        found: list[tuple[str, str, str]] = self._db.execute(
            "select what, subject, workspace from events "
            f"where seq > {self._mark} and seq <= {self._mark}",
            (self.seq, last),
        ).fetchall()
        self.seq = last
        return found


@dataclass(frozen=True, kw_only=True)
class Told:
    """One step: who asked what from where, what they sent, and what they got."""

    place: Place
    who: str
    verb: str
    sent: str
    answer: str
    done: bool
    sees_all: bool = False
    """The whole bank was asked for by somebody who may see it."""
    sees_evidence: bool = False
    sees_kin: bool = False
    """Ids are told of what is out of sight, as of parents."""
    changes_all: bool = False
    may_share: frozenset[Scope] = frozenset(Scope)

    def __str__(self) -> str:
        return f"{self.who} from {self.place.id}: {self.verb} {self.sent[:600]}"


def leaks(canaries: Canaries, rows: Rows, told: Told) -> Iterator[str]:
    """What the answer holds, and nobody in this workspace has sent or may see."""
    told.place.sent.update(WORD.findall(told.sent), ID.findall(told.sent))
    if told.sees_all:
        return
    for word in set(WORD.findall(told.answer)) - told.place.sent:
        if canaries.hidden(word, told.place) and not told.sees_evidence:
            owner, scope = canaries.words[word]
            yield f"{word} of {scope} {owner.id} in {_around(told.answer, word)}"
    for id in set() if told.sees_kin else set(ID.findall(told.answer)) - told.place.sent:
        for table in ("memories", "traces", "jobs"):
            if (row := rows[table].get(id)) and (owner := canaries.at(row[0])):
                scope = Scope(row[1]) if table == "memories" else Scope.PROJECT
                if not told.place.same(owner, scope):
                    yield f"{id} of {table}, {scope} {owner.id} in {_around(told.answer, id)}"


def _around(answer: str, found: str) -> str:
    place = answer.index(found)
    return repr(answer[max(0, place - 150) : place + 60])


TAKING_BACK = ("revert", "undo", "undo_batch")
"""What its owner takes back, nobody has observed; and has again, when that is undone."""
HANGING = ("evidence", "opinions", "tally", "links")
"""Tables whose rows are about a memory: the second column says about which."""


def meddling(
    told: Told, before: Rows, after: Rows, events: list[tuple[str, str, str]]
) -> Iterator[str]:
    """What has changed, and does not belong to where it was changed from."""
    if told.changes_all:
        return
    # What a search returned is written down later, by whoever writes next in its process.
    late = {workspace for what, _, workspace in events if what == EventType.USED}
    own = {told.place.id, *late}
    # What others thought of a memory goes with it, when it goes from where it belongs.
    gone = {part for id, row in before["memories"].items()
            if id not in after["memories"] and row[0] in own for part in (id, row[-1])}  # fmt: skip
    if told.verb in TAKING_BACK:
        gone |= {part for id, row in before["memories"].items() if row[0] in own
                 and row != after["memories"].get(id, row) for part in (id, row[-1])}  # fmt: skip
    for what, subject, workspace in events:
        if workspace != told.place.id and what != EventType.USED:
            yield f"event {what} about {subject} in the name of {workspace}"
    for table, rows in after.items():
        for key, row in (before[table].items() ^ rows.items()) if before[table] != rows else ():
            if row[0] in own or (table == "misses" and key in rows):
                continue
            there = key in rows and told.verb not in TAKING_BACK
            if not (table in HANGING and not there and row[1] in gone):
                yield f"{table} {key!r} of {row[0]}: {before[table].get(key)} to {rows.get(key)}"
    for id, row in after["memories"].items():
        if id not in before["memories"] and Scope(row[1]) not in told.may_share:
            yield f"memory {id} was shared with the {row[1]}"


def misplaced(canaries: Canaries, rows: Rows) -> Iterator[str]:
    """Gaps under the name of a workspace in which nobody asked that."""
    for workspace, question in rows["misses"].values():
        if (place := canaries.at(workspace)) is None:
            continue
        if any(canaries.hidden(word, place) for word in set(WORD.findall(question)) - place.sent):
            yield f"gap {question!r} at {workspace}"
