"""The schema of the SQLite ledger, as the list of steps that led to it.

A bank's version is the number of steps it has taken. Steps are only ever added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw


def first(db: apsw.Connection) -> None:
    db.execute(_FIRST)


def jobs(db: apsw.Connection) -> None:
    db.execute(_JOBS)


def meters(db: apsw.Connection) -> None:
    db.execute(_METERS)


def tokens(db: apsw.Connection) -> None:
    db.execute(_TOKENS)


# No part of the log: a token opens one server, and is worth nothing to another bank.
_TOKENS = """
create table tokens (
    id text primary key,
    name text not null,
    scope text not null,
    workspaces text,
    digest blob not null,
    created_at integer not null,
    created_by text not null,
    expires_at integer,
    last_used integer,
    revoked_at integer
) without rowid;
"""


def batches(db: apsw.Connection) -> None:
    db.execute(_BATCHES)


def occasions(db: apsw.Connection) -> None:
    db.execute(_OCCASIONS)


def misses(db: apsw.Connection) -> None:
    db.execute(_MISSES)


def shares(db: apsw.Connection) -> None:
    db.execute(_SHARES)


STEPS: list[Callable[[apsw.Connection], None]] = [
    first,
    jobs,
    meters,
    tokens,
    batches,
    occasions,
    misses,
    shares,
]

_FIRST = """
create table meta (key text primary key, value text not null) without rowid;

create table events (
    seq integer primary key,
    id text not null,
    what text not null,
    subject text not null,
    workspace text not null,
    at integer not null,
    origin text not null,
    author text not null,
    surface text not null,
    payload text not null
);
create unique index events_subject on events (subject, id);

-- Partitions: one project's memories, or what one team or org shares; active or archived.
create table realms (num integer primary key, key text not null unique);

-- A memory's number is that of the event that recorded it: never used again, and the same
-- after a rebuild. Short columns come first: a filter reads them without the long text.
create table memories (
    num integer primary key,
    id text not null unique,
    realm integer not null,
    workspace text not null,
    scope text not null,
    state text not null,
    outcome text not null,
    source text not null,
    created_at integer not null,
    initial real not null,
    standing blob, -- masses and lessons: what all evidence amounts to, for its belief
    usage_count integer not null default 0,
    last_used integer,
    embedded integer,
    revision integer not null,
    stage integer not null,
    merged_into text,
    domain text,
    agent text,
    task_type text,
    error_type text,
    failure_pattern text,
    author text not null,
    lesson text not null
);
create index memories_realm on memories (realm, created_at);
create index memories_embedded on memories (embedded);
create index memories_domain on memories (realm, domain) where domain is not null;
create index memories_agent on memories (realm, agent) where agent is not null;
create index memories_task_type on memories (realm, task_type) where task_type is not null;
create index memories_error_type on memories (realm, error_type) where error_type is not null;

create table tags (tag text, num integer, primary key (tag, num)) without rowid;

-- Not `contentless_delete`: it only marks a row as deleted, and its words stay in the file.
create virtual table words using fts5 (
    title, description, content, tags, realm,
    content='', tokenize="porter unicode61 remove_diacritics 2"
);
insert into words (words, rank) values ('secure-delete', 1);

-- A row per memory and model; its number grows with every change, so that an index can
-- follow. A vector of null says that the row is gone.
create table models (num integer primary key, name text not null unique);
create table vectors (
    seq integer primary key autoincrement,
    num integer not null,
    model integer not null,
    realm integer not null,
    vector blob,
    unique (num, model)
);

-- What was observed, once per memory, kind, rater and session. After 30 days a row is
-- counted in its tally and only remembered, so that it is never counted again.
create table evidence (
    key blob primary key,
    num integer not null,
    kind text not null,
    positive integer not null,
    at integer not null,
    session text,
    rater text,
    comment text,
    rolled integer not null default 0
) without rowid;
create index evidence_num on evidence (num) where rolled = 0;
create index evidence_at on evidence (at) where rolled = 0;
create index evidence_session on evidence (session, num) where session is not null;
create table tally (
    num integer, kind text, positive integer, day integer, count integer not null,
    primary key (num, kind, positive, day)
) without rowid;

-- What ratings taught about the other kinds of evidence, summed up over the project.
create table weights (workspace text primary key, counts text not null) without rowid;

create table links (
    source text, target text, type text, strength real not null,
    primary key (source, target, type)
) without rowid;
create index links_target on links (target);
create table kin (child text, parent text, primary key (child, parent)) without rowid;
create index kin_parent on kin (parent);
create table tombstones (id text primary key, at integer not null) without rowid;
create table traces (
    id text primary key, workspace text not null, at integer not null, event integer not null
) without rowid;
create index traces_workspace on traces (workspace, at);

create table workspaces (
    id text primary key, path text, name text unique, team text not null, org text not null
) without rowid;
create table paths (digest text primary key, workspace text not null) without rowid;
"""

# Work that waits for a worker: not in the log, for another bank has its own to do.
_JOBS = """
create table jobs (
    id text primary key,
    kind text not null,
    subject text not null,
    workspace text not null,
    state text not null,
    attempts integer not null,
    created_at integer not null,
    due integer not null, -- when it may be claimed: the end of a pause, or of a lease
    claim text,
    checkpoint text,
    error text
) without rowid;
create index jobs_due on jobs (due) where state in ('waiting', 'running');
create index jobs_workspace on jobs (workspace, state);
"""

_METERS = """
-- How the bank is used, added up over all processes; `cell` is explained in meters.py.
create table meters (
    name text, cell integer, amount integer not null, primary key (name, cell)
) without rowid;

-- Counted often; the trace itself is long.
alter table traces add column outcome text;
update traces set outcome = coalesce(
    (select payload ->> '$.trace.outcome' from events where seq = event and payload != ''),
    (select payload ->> '$.outcome' from events where subject = traces.id
     and what = 'trace.learned' and payload != '' and payload ->> '$.outcome' is not null
     order by at, origin, id limit 1)
);
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
    id integer primary key, workspace text not null, model text not null, vector blob not null
);
-- The question that brought the memory up, and how likely it was then thought to help.
alter table evidence add column question integer;
alter table evidence add column expected real;
create index evidence_question on evidence (num) where question is not null and kind != 'usage';

-- How what somebody wrote has fared: ratings, outcomes and stability of all their memories.
create table authors (
    workspace text, author text, helped integer not null, failed integer not null,
    primary key (workspace, author)
) without rowid;
insert into authors
    select workspace, author, coalesce(sum(n * positive), 0), coalesce(sum(n * (1 - positive)), 0)
    from memories left join (
        select num, positive, 1 as n from evidence where rolled = 0 and kind != 'usage'
        union all select num, positive, count from tally where kind != 'usage'
    ) using (num) group by 1, 2;

-- Tasks that said how they ended, and those that were given no memory (withheld: its ids).
create table tasks (
    workspace text, session text, at integer not null, withheld text, succeeded integer,
    primary key (workspace, session)
) without rowid;
"""

# Of a use: what would fall to the memory if only the task's outcome were told. Of an outcome:
# what did, and nothing where it was told of this memory alone.
_SHARES = "alter table evidence add column share real;"

# No part of the log: what people here asked in vain is theirs, and never leaves this bank.
_MISSES = """
create table misses (
    workspace text, question text, asked integer not null, first integer not null,
    last integer not null, model text, vector blob,
    primary key (workspace, question)
) without rowid;
create index misses_last on misses (workspace, last);

-- For what servers of this bank hand out sealed and take back, whichever of them gets it.
insert or ignore into meta values ('seal', lower(hex(randomblob(32))));
"""
