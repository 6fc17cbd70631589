"""What the role of a tenant may read: the rows of its own org, and nothing else.

    select reasonbank.admit('acme_reader', 'acme');   -- by the owner: a role that exists, an org
    select reasonbank.dismiss('acme_reader');

Which org is decided by the role that logged in, in a table that only the owner writes. No setting
of a session changes it, nor does ``set role``. The owner of the tables is not held back. A table
without a rule here shows a tenant nothing.

A tenant cannot write: the events of all are one chain, which whoever writes could break for all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reasonbank.ledger.database import Database

RULES = 2
"""Grows with every change of what is below: a bank that has older rules is given these."""
POLICY = "tenant"
KEY = "rules"
"""The key of ``meta`` that says which it has."""
VECTORS = "nearest_[0-9a-f]+_[0-9]+"
"""The tables of vectors that pgvector searches."""

_HERE = "workspace = any((select tenant_workspaces())::text[])"
_REALM = "realm = any((select tenant_realms())::bigint[])"
OF_VECTORS = f"{_REALM} or num < 0"
"""The row without a realm has no vector, only how far the table has followed the ledger."""


def _known(id: str) -> str:
    # Under the rule for memories, which holds here too.
    return f"exists (select 1 from memories m where m.id = {id})"


_TOLD = "exists (select 1 from events e where e.subject = {table}.id)"

SHOWN = {
    "workspaces": "id = any((select tenant_workspaces())::text[])",
    "merged": "home = any((select tenant_workspaces())::text[])",
    "realms": "num = any((select tenant_realms())::bigint[])",
    **dict.fromkeys(
        ("events", "memories", "evidence", "tally", "opinions", "weights", "authors",
         "author_tasks", "tasks", "questions", "misses", "traces", "paths", "jobs"),
        _HERE,
    ),
    **dict.fromkeys(("words", "vectors"), _REALM),
    "tags": "exists (select 1 from memories m where m.num = tags.num)",
    "shared_evidence": "exists (select 1 from memories m where m.num = shared_evidence.num)",
    "passages": "exists (select 1 from memories m where m.num = passages.num)",
    "links": f"{_known('links.source')} and {_known('links.target')}",
    "kin": _known("kin.child"),
    "tombstones": _TOLD.format(table="tombstones"),
    "purged": _TOLD.format(table="purged"),
    "taken_back": "exists (select 1 from events e where e.id = taken_back.id"
    " or e.subject = taken_back.id)",
    # Of the bank as a whole: which models embed, how it is made, and how far it has come.
    "models": "true",
    "meta": "key in ('schema', 'bank_id', 'half_life', 'rules')",
    "counters": "true",
}  # fmt: skip
"""By table, which rows a tenant reads. Of those that are not here, none: tokens, meters, tenants,
and ids that nothing is known of yet."""

_TENANTS = """
create table if not exists tenants (
    role text collate "C" primary key, org text collate "C" not null
)
"""

# What a function has in it is looked up when it is made: nothing that a tenant makes or sets can
# stand in for it.
_FUNCTIONS = """
create or replace function tenant_workspaces() returns text[]
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with own as (
        select w.id from workspaces w join tenants t on t.org = w.org where t.role = session_user
    )
    select coalesce(array_agg(id), '{}') from (
        select id from own union all select workspace from merged where home in (select id from own)
    ) every;
end;

-- The keys are those of `View.realm`.
create or replace function tenant_realms() returns bigint[]
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with own as (
        select unnest(array[
            'project:' || w.id,
            'team:' || replace(replace(w.org, '%', '%25'), '/', '%2F') || '/' || w.team,
            'org:' || w.org
        ]) as key
        from workspaces w join tenants t on t.org = w.org where t.role = session_user
    )
    select coalesce(array_agg(num), '{}') from realms
    where key in (select key from own union all select 'archived:' || key from own);
end;

create or replace function admit(new_role text, its_org text) returns void
    language plpgsql set search_path = {schema}, pg_temp
as $$
declare
    maker name := (select tableowner from pg_tables
                   where schemaname = current_schema and tablename = 'events');
begin
    if (select rolsuper or rolbypassrls or pg_has_role(oid, maker, 'member')
        from pg_roles where rolname = new_role) then
        raise exception 'role % may see everything here, so it cannot be a tenant', new_role
            using errcode = 'invalid_role_specification';
    end if;
    execute format('grant usage on schema %I to %I', current_schema, new_role);
    execute format('grant select on all tables in schema %I to %I', current_schema, new_role);
    execute format('alter default privileges for role %I in schema %I grant select on tables to %I',
                   maker, current_schema, new_role);
    insert into tenants values (new_role, its_org)
        on conflict (role) do update set org = excluded.org;
end $$;

create or replace function dismiss(old_role text) returns void
    language plpgsql set search_path = {schema}, pg_temp
as $$
declare
    maker name := (select tableowner from pg_tables
                   where schemaname = current_schema and tablename = 'events');
begin
    delete from tenants where role = old_role;
    execute format(
        'alter default privileges for role %I in schema %I revoke select on tables from %I',
        maker, current_schema, old_role);
    execute format('revoke select on all tables in schema %I from %I', current_schema, old_role);
    execute format('revoke usage on schema %I from %I', current_schema, old_role);
end $$;

revoke execute on function admit(text, text), dismiss(text) from public
"""


def protect(db: Database, schema: str) -> None:
    """Put these rules in place of those that there are, in the transaction that is open."""
    unprotect(db)
    db.execute(_TENANTS)
    db.execute(_FUNCTIONS.replace("{schema}", f'"{schema}"'))
    tables = db.all("select tablename from pg_tables where schemaname = current_schema")
    for (table,) in tables:
        db.execute(f'alter table "{table}" enable row level security')
        which = OF_VECTORS if re.fullmatch(VECTORS, table) else SHOWN.get(table)
        if which is not None:
            db.execute(show(table, which))
    db.execute(
        "insert into meta values (?, ?) on conflict (key) do update set value = excluded.value",
        (KEY, str(RULES)),
    )


def unprotect(db: Database) -> None:
    """Before tables are changed that rules refer to. Tenants then see nothing."""
    for (table,) in db.all(
        "select tablename from pg_policies where schemaname = current_schema"
        f" and policyname = '{POLICY}'"
    ):
        db.execute(f'drop policy {POLICY} on "{table}"')
    db.execute("drop function if exists tenant_workspaces(), tenant_realms()")


def show(table: str, which: str) -> str:
    return f"create policy {POLICY} on {table} for select using ({which})"
