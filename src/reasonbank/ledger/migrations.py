"""The schema of the ledger, as the list of steps that led to it.

A bank's version is the number of steps it has taken. Steps are only ever added.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from reasonbank.ledger.database import Database
from reasonbank.model import new_id


def upgrade(db: Database, version: int, half_life_days: float) -> None:
    """Take the steps that a bank of this version lacks; 0 is an empty database."""
    for step in STEPS[version:]:
        step(db)
    if version == 0:
        db.many(
            "insert into meta values (?, ?)",
            [("bank_id", new_id()), ("half_life", str(half_life_days))],
        )


def meta(db: Database, key: str) -> str:
    row = db.one("select value from meta where key = ?", (key,))
    assert row is not None
    return str(row[0])


REFOLD_BEFORE = 9
"""What follows from the log of an older bank is made anew, but for words and vectors."""
REWEIGH_BEFORE = 16
"""What the evidence of an older bank amounts to is made anew."""
APART_BEFORE = 13
"""What teams of an older bank share is told from what teams of a like-named org do."""

Step = Callable[[Database], None]


def _define(schema: str) -> Step:
    def step(db: Database) -> None:
        for statement in schema.format_map(db.dialect.types).split(";\n"):
            if statement.strip():
                db.execute(statement)

    return step


def first(db: Database) -> None:
    _define(_FIRST)(db)
    db.full_text.create()


def meters(db: Database) -> None:
    _define(_METERS)(db)
    for trace, payload in db.all(
        "select traces.id, payload from traces join events on seq = event where payload != ''"
    ):
        told = db.all(
            "select payload from events where subject = ? and what = 'trace.learned'"
            " and payload != '' order by at, origin, id",
            (trace,),
        )
        known = [json.loads(payload)["trace"], *(json.loads(each) for (each,) in told)]
        outcomes = [each["outcome"] for each in known if each.get("outcome")]
        if outcomes:
            db.execute("update traces set outcome = ? where id = ?", (outcomes[0], trace))


def misses(db: Database) -> None:
    _define(_MISSES)(db)
    # For what servers of this bank hand out sealed and take back, whichever of them gets it.
    seal = os.urandom(32).hex()
    db.execute("insert into meta values ('seal', ?) on conflict do nothing", (seal,))


def envelope(db: Database) -> None:
    _define(_ENVELOPE)(db)
    row = db.one("select max(counter) from events")
    db.execute("delete from meta where key = 'clock'")
    if row is not None and row[0] is not None:
        db.execute("insert into meta values ('log', ?)", (f"{row[0]}  ",))


# No part of the log: a token opens one server, and is worth nothing to another bank.
_TOKENS = """
create table tokens (
    id {text} primary key,
    name {text} not null,
    scope {text} not null,
    workspaces {text},
    digest {bytes} not null,
    created_at {whole} not null,
    created_by {text} not null,
    expires_at {whole},
    last_used {whole},
    revoked_at {whole}
) {table};
"""

_FIRST = """
create table meta (key {text} primary key, value {text} not null) {table};

create table events (
    seq {key},
    id {text} not null,
    what {text} not null,
    subject {text} not null,
    workspace {text} not null,
    at {whole} not null,
    origin {text} not null,
    author {text} not null,
    surface {text} not null,
    payload {text} not null
);
create unique index events_subject on events (subject, id);

-- Partitions: one project's memories, or what one team or org shares; active or archived.
create table realms (num {key}, key {text} not null unique);

-- A memory's number is that of the event that recorded it: never used again, and the same
-- after a rebuild. Short columns come first: a filter reads them without the long text.
create table memories (
    num {whole} primary key,
    id {text} not null unique,
    realm {whole} not null,
    workspace {text} not null,
    scope {text} not null,
    state {text} not null,
    outcome {text} not null,
    source {text} not null,
    created_at {whole} not null,
    initial {real} not null,
    standing {bytes}, -- masses and lessons: what all evidence amounts to, for its belief
    usage_count {whole} not null default 0,
    last_used {whole},
    embedded {whole},
    revision {whole} not null,
    stage {whole} not null,
    merged_into {text},
    domain {text},
    agent {text},
    task_type {text},
    error_type {text},
    failure_pattern {text},
    author {text} not null,
    lesson {text} not null
);
create index memories_realm on memories (realm, created_at);
create index memories_embedded on memories (embedded);
create index memories_domain on memories (realm, domain) where domain is not null;
create index memories_agent on memories (realm, agent) where agent is not null;
create index memories_task_type on memories (realm, task_type) where task_type is not null;
create index memories_error_type on memories (realm, error_type) where error_type is not null;

create table tags (tag {text}, num {whole}, primary key (tag, num)) {table};

-- A row per memory and model; its number grows with every change, so that an index can
-- follow. A vector of null says that the row is gone.
create table models (num {key}, name {text} not null unique);
create table vectors (
    seq {counter},
    num {whole} not null,
    model {whole} not null,
    realm {whole} not null,
    vector {bytes},
    unique (num, model)
);

-- What was observed, once per memory, kind, rater and session. After 30 days a row is
-- counted in its tally and only remembered, so that it is never counted again.
create table evidence (
    key {bytes} primary key,
    num {whole} not null,
    kind {text} not null,
    positive {whole} not null,
    at {whole} not null,
    session {text},
    rater {text},
    comment {text},
    rolled {whole} not null default 0
) {table};
create index evidence_num on evidence (num) where rolled = 0;
create index evidence_at on evidence (at) where rolled = 0;
create index evidence_session on evidence (session, num) where session is not null;
create table tally (
    num {whole}, kind {text}, positive {whole}, day {whole}, count {whole} not null,
    primary key (num, kind, positive, day)
) {table};

-- What ratings taught about the other kinds of evidence, summed up over the project.
create table weights (workspace {text} primary key, counts {text} not null) {table};

create table links (
    source {text}, target {text}, type {text}, strength {real} not null,
    primary key (source, target, type)
) {table};
create index links_target on links (target);
create table kin (child {text}, parent {text}, primary key (child, parent)) {table};
create index kin_parent on kin (parent);
create table tombstones (id {text} primary key, at {whole} not null) {table};
create table traces (
    id {text} primary key, workspace {text} not null, at {whole} not null, event {whole} not null
) {table};
create index traces_workspace on traces (workspace, at);

create table workspaces (
    id {text} primary key, path {text}, name {text} unique, team {text} not null,
    org {text} not null
) {table};
create table paths (digest {text} primary key, workspace {text} not null) {table};
"""

# Work that waits for a worker: not in the log, for another bank has its own to do.
_JOBS = """
create table jobs (
    id {text} primary key,
    kind {text} not null,
    subject {text} not null,
    workspace {text} not null,
    state {text} not null,
    attempts {whole} not null,
    created_at {whole} not null,
    due {whole} not null, -- when it may be claimed: the end of a pause, or of a lease
    claim {text},
    checkpoint {text},
    error {text}
) {table};
create index jobs_due on jobs (due) where state in ('waiting', 'running');
create index jobs_workspace on jobs (workspace, state);
"""

_METERS = """
-- How the bank is used, added up over all processes; `cell` is explained in meters.py.
create table meters (
    name {text}, cell {whole}, amount {whole} not null, primary key (name, cell)
) {table};

-- Counted often; the trace itself is long.
alter table traces add column outcome {text};
"""

# Batches are read from the log itself; there are few of them among many events.
_BATCHES = """
create index events_batches on events (workspace, seq)
    where what in ('batch.applied', 'batch.reverted');
create index jobs_kind on jobs (kind, workspace, created_at);
"""

_OCCASIONS = """
-- What was asked, as a vector, when a named task searched; its number is the event's.
create table questions (
    id {whole} primary key, workspace {text} not null, model {text} not null,
    vector {bytes} not null
);
-- The question that brought the memory up, and how likely it was then thought to help.
alter table evidence add column question {whole};
alter table evidence add column expected {real};
create index evidence_question on evidence (num) where question is not null and kind != 'usage';

-- How what somebody wrote has fared: ratings, outcomes and stability of all their memories.
create table authors (
    workspace {text}, author {text}, helped {whole} not null, failed {whole} not null,
    primary key (workspace, author)
) {table};
insert into authors
    select workspace, author, coalesce(sum(n * positive), 0), coalesce(sum(n * (1 - positive)), 0)
    from memories left join (
        select num, positive, 1 as n from evidence where rolled = 0 and kind != 'usage'
        union all select num, positive, count from tally where kind != 'usage'
    ) told using (num) group by 1, 2;

-- Tasks that said how they ended, and those that were given no memory (withheld: its ids).
create table tasks (
    workspace {text}, session {text}, at {whole} not null, withheld {text}, succeeded {whole},
    primary key (workspace, session)
) {table};
"""

# Of a use: what would fall to the memory if only the task's outcome were told. Of an outcome:
# what did, and nothing where it was told of this memory alone.
_SHARES = "alter table evidence add column share {real};"

# No part of the log: what people here asked in vain is theirs, and never leaves this bank.
_MISSES = """
create table misses (
    workspace {text}, question {text}, asked {whole} not null, first {whole} not null,
    last {whole} not null, model {text}, vector {bytes},
    primary key (workspace, question)
) {table};
create index misses_last on misses (workspace, last);
"""

# Until then the times of events were made to grow, so they can stand in for the counter.
_ENVELOPE = """
alter table events add column counter {whole} not null default 0;
alter table events add column principal {text} not null default 'agent';
alter table events add column batch {text};
alter table events add column prev {text};
alter table events add column digest {text};
alter table events add column salt {text};
update events set counter = at, principal = case surface
    when 'cli' then 'person' when 'worker' then 'model' else 'agent' end;
create index events_places on events (what, subject)
    where what in ('workspace.joined', 'workspace.named', 'workspace.moved', 'workspace.deleted');

-- What was observed, once per workspace, memory, kind, rater and session. `counter` and `event`
-- are those of the event that says so. After 30 days a row is counted in its tally; it stays, so
-- that it is never counted again and still tells who said what.
drop table evidence;
create table evidence (
    key {bytes} primary key,
    num {whole} not null,
    workspace {text} not null,
    kind {text} not null,
    positive {whole} not null,
    at {whole} not null,
    session {text},
    rater {text},
    comment {text},
    rolled {whole} not null default 0,
    question {whole},
    expected {real},
    share {real},
    counter {whole} not null,
    event {text} not null
) {table};
create index evidence_num on evidence (num, rolled);
create index evidence_at on evidence (at) where rolled = 0;
create index evidence_session on evidence (workspace, session, num) where session is not null;
create index evidence_question on evidence (num) where question is not null and kind != 'usage';
drop table tally;
create table tally (
    num {whole}, workspace {text}, kind {text}, positive {whole}, day {whole},
    count {whole} not null,
    primary key (num, workspace, kind, positive, day)
) {table};

drop table tasks;
create table tasks (
    workspace {text}, session {text}, at {whole} not null,
    succeeded {whole}, reporter {text}, counter {whole}, event {text}, -- as the last who said it
    withheld {text}, withheld_counter {whole}, withheld_event {text}, -- as the first
    primary key (workspace, session)
) {table};

drop table authors;
create table authors (
    workspace {text}, author {text}, memories {whole} not null, helped {whole} not null,
    failed {whole} not null, primary key (workspace, author)
) {table};

-- What the evidence of other projects about a shared memory amounts to: it counts in these alone.
create table opinions (
    num {whole}, workspace {text}, standing {bytes} not null, primary key (workspace, num)
) {table};
create index opinions_num on opinions (num);

alter table tokens add column may {text};

create table purged (
    id {text} primary key, counter {whole} not null, event {text} not null
) {table};
-- Of what something was observed that is not here (yet).
create table awaited (id {text} primary key) {table};
"""

# Where the events of a workspace belong that was merged into another.
_MERGED = """
create table merged (workspace {text} primary key, home {text} not null) {table};
create index merged_home on merged (home);
drop index events_places;
create index events_places on events (what, subject)
    where what in ('workspace.joined', 'workspace.named', 'workspace.moved', 'workspace.merged',
                   'workspace.deleted');
"""

# A task counts once for whoever wrote what it was given, however many memories that were.
_AUTHOR_TASKS = """
create table author_tasks (
    workspace {text}, author {text}, task {text}, helped {whole} not null, failed {whole} not null,
    primary key (workspace, author, task)
) {table};
insert into author_tasks
    select m.workspace, m.author, coalesce(session, 'day ' || (at / 86400000000)),
           sum(positive), sum(1 - positive)
    from evidence e join memories m on m.num = e.num and m.workspace = e.workspace
    where kind != 'usage' group by 1, 2, 3;
update authors set
    helped = (select count(*) from author_tasks t where t.workspace = authors.workspace
              and t.author = authors.author and t.helped >= t.failed),
    failed = (select count(*) from author_tasks t where t.workspace = authors.workspace
              and t.author = authors.author and t.helped < t.failed);
"""

# A tally counts in parts of an observation (`belief.parts`). What was rolled up before is counted
# by itself until it is rolled up again: whole counts do not say which tasks had several memories.
_PARTS = """
delete from tally;
update evidence set rolled = 0 where rolled = 1;
"""


def apart(db: Database) -> None:
    """No table changes: see ``Writer.upgraded``. A program that knows this step and one that does
    not would look for the same memories in two places."""


# What an embedding model made of each passage of a long memory. Those of before are embedded anew.
_PASSAGES = """
create table passages (
    num {whole}, model {whole}, vectors {bytes} not null, primary key (num, model)
) {table};
update memories set embedded = null where length(lesson) > 1000;
"""

# Events that count for nothing since another said so, and memories of which nothing counts that was
# observed before.
_TAKEN_BACK = """
create table taken_back (
    id {text} primary key, counter {whole} not null, event {text} not null
) {table};
"""

# On probation: 0 is confirmed, 1 untested, 2 waits for a person. `entered` is how it came in and
# `since` the counter from which on evidence can change that; `probation` is what evidence made of
# it. What a bank holds already counts as confirmed. A hand is whose word something is.
_PROBATION = """
alter table memories add column entered {whole} not null default 0;
alter table memories add column since {whole} not null default 0;
alter table memories add column probation {whole} not null default 0;
alter table memories add column hand {text};
create index memories_probation on memories (realm, probation) where probation > 0;
alter table evidence add column hand {text};
alter table evidence add column witnessed {whole} not null default 0;
alter table tasks add column hand {text};

-- What the evidence of its own project says of a shared memory to others: not its author's own,
-- and each hand's once a day.
create table shared_evidence (num {whole} primary key, standing {bytes}) {table};

update memories set hand = told.hand from (
    select e.subject, case e.principal when 'model' then 'agent' else e.principal end
        || ':' || e.author as hand
    from events e where e.what = 'memory.recorded' and not exists (
        select 1 from events f where f.subject = e.subject and f.what = e.what
        and (f.counter < e.counter or f.counter = e.counter and f.id < e.id))
) told where told.subject = memories.id;
update evidence set hand = told.hand from (
    select id, case principal when 'model' then 'agent' else principal end
        || ':' || author as hand
    from events where what in ('evidence.observed', 'task.ended')
) told where told.id = evidence.event and evidence.kind != 'usage';
update tasks set hand = told.hand from (
    select id, case principal when 'model' then 'agent' else principal end
        || ':' || author as hand
    from events where what = 'task.ended'
) told where told.id = tasks.event;
"""

# Other banks, and what all of them said, as they signed it. No part of this bank's log: what it
# makes of theirs is there.
_PEERS = """
create table peers (
    key {text} primary key,
    name {text} not null unique,
    address {text},
    token {bytes}, -- what the other lets this bank do
    granted {bytes}, -- what this bank lets the other do
    trusted {whole} not null default 0,
    added_at {whole} not null,
    seen_at {whole},
    revoked_at {whole}
) {table};

create table invitations (
    id {text} primary key,
    name {text},
    created_at {whole} not null,
    expires_at {whole} not null,
    taken_by {text},
    revoked_at {whole}
) {table};

-- `via` is the peer that brought it first; from `fork` on it told two stories, of which `proof` is
-- kept; of this bank's own, `read_to` is how far its events were looked through.
create table logs (
    num {key},
    key {text} not null,
    epoch {text} not null,
    channel {text} not null,
    length {whole} not null default 0,
    link {bytes} not null,
    size {whole} not null default 0,
    via {text} not null,
    fork {whole},
    proof {bytes},
    read_to {whole} not null default 0,
    unique (key, epoch, channel)
);

-- What is forgotten loses salt and payload, and the chain still holds.
create table log_entries (
    log {whole}, seq {whole},
    event {text} not null,
    subject {text} not null,
    link {bytes} not null,
    signature {bytes},
    header {bytes} not null,
    salt {bytes},
    payload {bytes},
    primary key (log, seq)
) {table};
create index log_entries_event on log_entries (event);
create index log_entries_subject on log_entries (subject);

-- A project that is shared by its name is another folder on each machine.
create table shared_projects (name {text} primary key, workspace {text} not null) {table};

-- What was offered to others, or taken from them; `spent` is counted against the capability.
create table offers (
    id {text} primary key,
    ours {whole} not null,
    peer {text},
    state {text} not null,
    task {text} not null,
    most {whole} not null,
    spent {whole} not null default 0,
    expires_at {whole} not null,
    workspace {text} not null,
    trace {text}
) {table};
"""

STEPS: list[Step] = [
    first,
    _define(_JOBS),
    meters,
    _define(_TOKENS),
    _define(_BATCHES),
    _define(_OCCASIONS),
    misses,
    _define(_SHARES),
    envelope,
    _define(_MERGED),
    _define(_AUTHOR_TASKS),
    _define(_PARTS),
    apart,
    _define(_PASSAGES),
    _define(_TAKEN_BACK),
    _define(_PROBATION),
    _define(_PEERS),
]
