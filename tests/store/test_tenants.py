"""What the role of a tenant gets out of a bank that several orgs share: its own, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from lived_in import HASHED, live_in, open_over, seen
from psycopg import errors
from tests.engines import postgres
from tests.requirement import requirement
from tests.surfaces.http_server import command

from reasonbank import Bank, NotFound, Scope, StorageError
from reasonbank.health import health
from reasonbank.ledger.postgres import PostgresLedger
from reasonbank.ledger.postgres.tenants import SHOWN
from reasonbank.testing import a_memory

OURS, THEIRS = "acme", "rival"
TABLES = "select tablename from pg_tables where schemaname = 'reasonbank' order by 1"
# What no ordinary life leaves behind, of either org; the rest comes from `live_in`.
RARE = """
insert into reasonbank.paths values ('digest of {org}', '{here}');
insert into reasonbank.merged values ('once {org}', '{here}');
insert into reasonbank.purged values ('{trace}', 1, 'purged by {org}');
insert into reasonbank.awaited values ('awaited by {org}');
insert into reasonbank.tally values ({num}, '{here}', 'outcome', 1, 1, 7);
insert into reasonbank.opinions values ({num}, '{here}', decode(repeat('00', 136), 'hex'));
insert into reasonbank.misses values ('{here}', 'asked by {org}', 1, 1, 1);
insert into reasonbank.author_tasks values ('{here}', 'of {org}', 'task', 1, 0)
"""


@dataclass
class Shared:
    """A bank of two orgs, and the role of one of them."""

    server: postgres.Server
    database: str
    theirs: list[str]
    """Texts that are in rows of the other org, and in no other rows."""
    nums: set[int]
    realms: set[int]

    @property
    def owner(self) -> str:
        return self.server.url(self.database)

    @property
    def tenant(self) -> str:
        return self.server.url(self.database, user="acme_reader", password="x")

    def asked(self, sql: str) -> list[Any]:
        return self.server.execute(sql, database=self.database)


@pytest.fixture(scope="module")
def made(postgres_server: postgres.Server, tmp_path_factory: Any) -> Iterator[Shared]:
    url = postgres_server.new_database()
    shared = Shared(postgres_server, url.rpartition("/")[2], [THEIRS], set(), set())
    ledger = PostgresLedger(url)
    folder: Path = tmp_path_factory.mktemp("projects")
    for org in (OURS, THEIRS):
        _live_in(shared, ledger, folder / org, org)
    ledger.close()
    postgres_server.execute("create role acme_reader login password 'x'")
    shared.asked(f"select reasonbank.admit('acme_reader', '{OURS}')")
    yield shared
    shared.asked("select reasonbank.dismiss('acme_reader')")
    postgres_server.execute("drop role acme_reader")
    postgres_server.drop(url)


def _live_in(shared: Shared, ledger: PostgresLedger, folder: Path, org: str) -> None:
    banks = [open_over(ledger, folder / each) for each in ("here", "beside")]
    for bank in banks:
        bank.join_workspace(org=org)
    banks = [open_over(ledger, folder / each) for each in ("here", "beside")]
    here, beside = (bank.view.workspace for bank in banks)
    live_in(*banks)
    # Which may each be there once.
    banks[1].name_workspace(beside, f"beside {org}")
    shared.asked(f"update reasonbank.tokens set name = '{org}' where name = 'ci'")
    banks[0].record(a_memory(title=f"All of {org} do this", scope=Scope.ORG, tags=(org,)))
    memories = shared.asked(
        "select num, realm, m.id from reasonbank.memories m join reasonbank.workspaces w"
        f" on w.id = workspace where org = '{org}'"
    )
    traces = shared.asked(f"select id from reasonbank.traces where workspace = '{here}'")
    rare = RARE.format(org=org, here=here, num=memories[0][0], trace=traces[0][0])
    shared.asked(rare)
    if org == THEIRS:
        shared.nums = {num for num, _, _ in memories}
        shared.realms = {realm for _, realm, _ in memories}
        told = shared.asked(
            f"select unnest(array[subject, id]) from reasonbank.events where workspace = '{here}'"
        )
        ids = {id for *_, id in memories} | {id for (id,) in told if len(id) == 36}
        shared.theirs += [here, beside, *ids]


@pytest.fixture
def tenant(made: Shared) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(made.tenant, autocommit=True) as db:
        db.execute("set search_path = reasonbank, public")
        yield db


def rows(db: psycopg.Connection[Any], table: str) -> list[dict[str, Any]]:
    found = db.execute(f"select row_to_json(t)::text from {table} t").fetchall()
    return [json.loads(row) for (row,) in found]


def is_theirs(made: Shared, table: str, row: dict[str, Any]) -> bool:
    told = json.dumps(row)
    return (
        any(text in told for text in made.theirs)
        or row.get("num") in (made.nums if table != "realms" else made.realms)
        or row.get("realm") in made.realms
    )


NOTHING = {
    "awaited", "meters", "tenants", "tokens",
    "peers", "invitations", "logs", "log_entries", "shared_projects", "offers",
}  # fmt: skip
OF_ALL = {"counters", "meta", "models"}
OTHER_BANKS = (
    "insert into peers (key, name, added_at) values ('k', 'n', 1) on conflict do nothing",
    "insert into invitations (id, created_at, expires_at) values ('i', 1, 2)"
    " on conflict do nothing",
    "insert into logs (key, epoch, channel, link, via) values ('k', 'e', 'c', '', 'k')"
    " on conflict do nothing",
    "insert into log_entries (log, seq, event, subject, link, header)"
    " values (1, 0, 'e', 's', '', '') on conflict do nothing",
    "insert into shared_projects values ('n', 'w') on conflict do nothing",
    "insert into offers (id, ours, state, task, most, expires_at, workspace)"
    " values ('o', 1, 'open', 't', 1, 2, 'w') on conflict do nothing",
)


@requirement("WSP-2", "SEC-6", "DEP-1")
def test_of_every_table_a_tenant_reads_its_own_rows_and_no_others(
    made: Shared, tenant: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(made.owner, autocommit=True) as owner:
        owner.execute("set search_path = reasonbank, public")
        for statement in OTHER_BANKS:
            owner.execute(statement)
        tables = [name for (name,) in owner.execute(TABLES).fetchall()]
        assert len(tables) == len(SHOWN) + len(NOTHING) + 1  # pgvector's
        for table in tables:
            all_of_it, shown = rows(owner, table), rows(tenant, table)
            assert all_of_it, f"nothing is in {table}, so nothing was tried"
            wrong = [row for row in shown if is_theirs(made, table, row)]
            assert wrong == [], table
            if table in NOTHING:
                assert shown == [], table
            elif table not in OF_ALL:
                # Not by chance: there is something to hide, and all of its own is there.
                own = [row for row in all_of_it if not is_theirs(made, table, row)]
                assert len(own) < len(all_of_it), table
                assert len(shown) == len(own) > 0, table
        assert {row["key"] for row in rows(tenant, "meta")} == {
            "schema", "bank_id", "half_life", "rules",
        }  # fmt: skip


@requirement("WSP-2", "SEC-6")
@pytest.mark.parametrize(
    "trick",
    [
        "set row_security = off; select * from memories",
        "set role postgres",
        "set session authorization postgres",
        "reset session authorization; set role none; select * from memories",
        "set reasonbank.org = 'rival'; select * from memories",
        "set search_path = pg_temp; create temp table tenants (role text, org text);"
        " insert into pg_temp.tenants values ('acme_reader', 'rival');"
        " set search_path = pg_temp, reasonbank; select * from reasonbank.memories",
        "create function pg_temp.leak(text) returns bool language plpgsql cost 0.0000001 as"
        " $$ begin raise notice '%', $1; return true; end $$;"
        " select * from memories where pg_temp.leak(lesson)",
        "select * from memories where lesson like '%rival%' or 1 / length(lesson) > 0",
        "select m.* from tags t left join memories m on true",
        "select (select string_agg(lesson, '') from memories)",
        "with every as materialized (table events) select * from every",
        "select * from words where term = 'rival'",
        "select * from pg_stats where schemaname = 'reasonbank'",
        "select query from pg_stat_activity where query ~ 'rival' and pid <> pg_backend_pid()",
        "select tenant_workspaces()",
        "copy memories to stdout",
        "copy (select * from events) to stdout",
    ],
)
def test_no_trick_of_a_session_shows_more(
    made: Shared, tenant: psycopg.Connection[Any], trick: str
) -> None:
    told: list[str] = []
    tenant.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    try:
        if trick.startswith("copy"):
            with tenant.cursor().copy(trick) as lines:
                told += [bytes(line).decode() for line in lines]
        else:
            for result in tenant.execute(trick).results():
                if result.description:
                    told += [json.dumps(row, default=str) for row in result.fetchall()]
    except (errors.InsufficientPrivilege, errors.FeatureNotSupported) as error:
        told.append(str(error))
    text = "\n".join(told)
    assert [each for each in made.theirs if each in text] == []


@requirement("SEC-6")
@pytest.mark.parametrize(
    "change",
    [
        "insert into memories select * from memories",
        "update memories set lesson = ''",
        "delete from events",
        "truncate words",
        "insert into tenants values ('acme_reader', 'rival')",
        "update counters set version = 0",
        "update meta set value = '99' where key = 'schema'",
        "select next_vector()",
        "select admit('acme_reader', 'rival')",
        "select dismiss('acme_reader')",
        "create table reasonbank.mine (a int)",
        "create function reasonbank.mine() returns int language sql as 'select 1'",
        "alter table memories disable row level security",
        "drop policy tenant on memories",
        "create policy mine on memories for select using (true)",
        "begin; lock table memories in exclusive mode",
        "copy memories from stdin",
        "select * from memories for update",
        "create table pg_temp.t (a bigint references memories (num))",
        "alter function tenant_workspaces() security invoker",
    ],
)
def test_a_tenant_changes_nothing(
    made: Shared, tenant: psycopg.Connection[Any], change: str
) -> None:
    with pytest.raises((errors.InsufficientPrivilege, errors.InvalidTableDefinition)):
        tenant.execute(change)


@requirement("WSP-2", "DEP-1")
def test_through_the_product_a_tenant_sees_what_the_owner_sees_of_its_org(made: Shared) -> None:
    here, _ = (
        path
        for (path,) in made.asked(
            f"select path from reasonbank.workspaces where org = '{OURS}' order by path desc"
        )
    )
    with (
        Bank.open(made.owner, workspace=here, settings=HASHED, read_only=True) as owner,
        Bank.open(made.tenant, workspace=here, settings=HASHED) as tenant,
    ):
        wanted, found = seen(owner), seen(tenant)
        for hits in (wanted["hits"], found["hits"]):
            assert any(hits.values())
        assert {q: [h[:2] for h in hits] for q, hits in found.pop("hits").items()} == {
            q: [h[:2] for h in hits] for q, hits in wanted.pop("hits").items()
        }
        assert found == wanted
        assert {w.org for w in tenant.workspaces()} == {OURS} < {w.org for w in owner.workspaces()}
        assert tenant.statistics(everywhere=True)
        with pytest.raises(StorageError, match="this role may only read; write through a server"):
            tenant.record(a_memory())
        for id in made.theirs[3:6]:
            with pytest.raises(NotFound):
                tenant.get(id)
        assert {check.status for check in health(tenant.context)} <= {"ok", "warn"}


@requirement("WSP-2")
def test_a_tenant_that_says_it_is_of_another_org_sees_nothing_of_that_org(made: Shared) -> None:
    for (path,) in made.asked(f"select path from reasonbank.workspaces where org = '{THEIRS}'"):
        with Bank.open(made.tenant, workspace=path, settings=replace(HASHED, org=THEIRS)) as bank:
            assert bank.memories() == [] and bank.traces() == [] and bank.jobs() == []
            assert not bank.search("flaky test of the port").hits


@requirement("SEC-6")
def test_a_role_that_row_security_does_not_hold_back_is_not_admitted(made: Shared) -> None:
    made.asked("create role almighty bypassrls; create role member_of_owner in role postgres")
    for role in ("postgres", "almighty", "member_of_owner"):
        with pytest.raises(errors.InvalidRoleSpecification, match="cannot be a tenant"):
            made.asked(f"select reasonbank.admit('{role}', '{OURS}')")
    with pytest.raises(errors.UndefinedObject):
        made.asked(f"select reasonbank.admit('nobody_of_that_name', '{OURS}')")
    made.asked("drop role almighty; drop role member_of_owner")


@requirement("SEC-6")
def test_who_is_dismissed_or_never_was_admitted_reads_nothing(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    PostgresLedger(postgres_url).close()
    name = postgres_url.rpartition("/")[2]
    postgres_server.execute("create role stranger login password 'x'")
    as_stranger = postgres_server.url(name, user="stranger", password="x")
    try:
        for _ in range(2):
            with pytest.raises(StorageError, match="permission denied for schema reasonbank"):
                PostgresLedger(as_stranger)
            postgres_server.execute("select reasonbank.admit('stranger', 'org')", database=name)
            ledger = PostgresLedger(as_stranger)
            assert ledger.read_only and not ledger.whole
            ledger.close()
            # Privileges alone show nothing: no org, no rows.
            postgres_server.execute("delete from reasonbank.tenants", database=name)
            with psycopg.connect(as_stranger) as db:
                assert db.execute("table reasonbank.workspaces").fetchall() == []
            postgres_server.execute("select reasonbank.dismiss('stranger')", database=name)
    finally:
        postgres_server.execute("drop role stranger")


STALE = (
    "delete from reasonbank.meta where key = 'rules'; drop table reasonbank.tenants cascade",
    "update reasonbank.meta set value = '0' where key = 'rules';"
    " drop policy tenant on reasonbank.words",
)


@requirement("DEP-4")
def test_an_owner_that_is_no_superuser_has_rules_made_and_is_not_held_back_by_them(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    """Also where the bank was made before there were any, or has older ones."""
    name = postgres_url.rpartition("/")[2]
    postgres_server.execute("create role keeper login password 'x'")
    postgres_server.execute(f"grant create on database {name} to keeper")
    url = postgres_server.url(name, user="keeper", password="x")
    try:
        with Bank.open(url, workspace="/keeper", settings=HASHED) as bank:
            kept = bank.record(a_memory())
        policies = "select tablename, qual from pg_policies where schemaname = 'reasonbank'"
        wanted = sorted(postgres_server.execute(policies, database=name))
        for stale in STALE:
            postgres_server.execute(stale, database=name)
            with Bank.open(url, workspace="/keeper", settings=HASHED) as bank:
                assert bank.get(kept.id).title == kept.title
                assert bank.search(kept.title).hits
            assert sorted(postgres_server.execute(policies, database=name)) == wanted
        off = "select * from pg_tables where schemaname = 'reasonbank' and not rowsecurity"
        assert postgres_server.execute(off, database=name) == []
    finally:
        postgres_server.drop(postgres_url)
        postgres_server.execute("drop role keeper")


@requirement("DEP-1")
def test_what_was_imported_is_in_the_index_before_anybody_searches(
    postgres_url: str, tmp_path: Path
) -> None:
    """So neither a command that ends nor a tenant has to fill one."""
    (tmp_path / "lines.jsonl").write_text(
        "".join(json.dumps(a_memory(title=f"Zebra {n}").to_json()) + "\n" for n in range(100))
    )
    place = {"REASONBANK_URL": postgres_url, "REASONBANK_EMBED_MODEL": "hashed"}
    code, told = command(tmp_path, "import", "lines.jsonl", **place)
    assert code == 0, told
    with Bank.open(postgres_url, workspace=tmp_path, settings=HASHED, read_only=True) as bank:
        assert len(bank.search("zebra", limit=50).hits) == 50
        assert bank.store.indexing.index.name.startswith("pgvector")  # Not one of its own.


@requirement("WSP-2")
def test_a_tenant_whose_org_and_team_read_like_anothers_is_shown_its_own_words_and_vectors(
    postgres_server: postgres.Server, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    nums = {}
    for org, team in (("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c")):
        with Bank.open(postgres_url, workspace=f"/{org} {team}", settings=HASHED) as bank:
            bank.join_workspace(org=org, team=team)
        with Bank.open(postgres_url, workspace=f"/{org} {team}", settings=HASHED) as bank:
            bank.record(a_memory(title=f"Zebra of {org}", scope=Scope.TEAM))
            found = bank.search("zebra").hits
            assert [hit.memory.title for hit in found] == [f"Zebra of {org}"]
            nums[org] = max(postgres_server.execute("table reasonbank.vectors", database=name))[1]
    postgres_server.execute("create role between login password 'x'")
    try:
        for org, num in nums.items():
            admitted = f"select reasonbank.admit('between', '{org}')"
            postgres_server.execute(admitted, database=name)
            with psycopg.connect(postgres_server.url(name, user="between", password="x")) as db:
                for table in ("words", "vectors", "memories"):
                    shown = db.execute(f"select distinct num from reasonbank.{table}").fetchall()
                    assert shown == [(num,)], (org, table)
    finally:
        postgres_server.drop(postgres_url)
        postgres_server.execute("drop role between")
