"""What a bank says about itself: measured, added up over processes, null where not known."""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client
from tests.conftest import HASHED, Fragile
from tests.requirement import requirement

from reasonbank import Outcome, StorageError
from reasonbank.fields import plain
from reasonbank.ledger.events import EventType
from reasonbank.ledger.migrations import STEPS
from reasonbank.ledger.sqlite.connection import Connection
from reasonbank.ledger.sqlite.ledger import APPLICATION_ID
from reasonbank.llm.port import user
from reasonbank.opening import model_for
from reasonbank.settings import LLM
from reasonbank.store.statistics import Process, Statistics
from reasonbank.surfaces import shapes
from reasonbank.surfaces.cli import main
from reasonbank.surfaces.mcp.server import make_server
from reasonbank.surfaces.show.metrics import render
from reasonbank.testing import a_memory, a_trace, a_warning

NEVER = {"count": 0, "p50_ms": None, "p95_ms": None, "p99_ms": None}


@requirement("OBS-1")
def test_memories_are_counted_by_state_source_and_outcome(plain_bank):
    plain_bank.record(a_memory())
    plain_bank.record(a_warning())
    plain_bank.archive(plain_bank.record(a_memory()).id)
    numbers = plain_bank.statistics()
    assert numbers.memories == 3
    assert numbers.by_state == {"active": 2, "archived": 1}
    assert numbers.by_source == {"explicit": 3}
    assert numbers.by_outcome == {"success": 2, "failure": 1}


@requirement("OBS-1")
def test_the_success_rate_is_that_of_the_traces(plain_bank):
    assert plain_bank.statistics().success_rate is None
    for outcome in (Outcome.SUCCESS, Outcome.SUCCESS, Outcome.FAILURE, Outcome.MIXED):
        plain_bank.store_trace(a_trace(outcome=outcome))
    numbers = plain_bank.statistics()
    assert numbers.traces == numbers.total_traces == 4
    assert numbers.traces_by_outcome == {"success": 2, "failure": 1, "mixed": 1}
    assert numbers.success_rate == 0.5
    plain_bank.rebuild()
    assert plain_bank.statistics().success_rate == 0.5


@requirement("OBS-1")
def test_searches_and_their_latencies_are_measured(open_bank):
    embedder = Fragile()
    bank = open_bank.with_embedder(embedder)
    assert plain(bank.statistics().latency) == {"retrieval": NEVER, "embedding": NEVER}
    bank.record(a_memory())
    bank.search("retry uploads")
    bank.search("retry uploads")
    bank.search("zebra")
    embedder.broken = True
    bank.search("nothing of the kind")
    numbers = bank.statistics()
    assert plain(numbers.searches) == {
        "answered": 4, "empty": 2, "weak": 0, "degraded": 1, "failed": 0,
    }  # fmt: skip
    retrieval, embedding = numbers.latency.retrieval, numbers.latency.embedding
    assert retrieval.count == 4
    assert embedding.count == 2
    assert 0 < retrieval.p50_ms <= retrieval.p95_ms <= retrieval.p99_ms
    assert 0 < embedding.p50_ms <= retrieval.p99_ms
    assert plain(numbers.query_cache) == {"hits": 1, "misses": 3, "evictions": 0, "hit_rate": 0.25}
    assert numbers.cache_hit_rate == 0.25


@requirement("OBS-1")
def test_an_outcome_that_is_found_out_later_counts_from_then_on(plain_bank):
    trace = plain_bank.store_trace(a_trace(outcome=None))
    assert plain_bank.statistics().success_rate is None
    learned = {"ids": [], "outcome": "success", "by": "judge", "score": 0.9}
    plain_bank.context.write(
        lambda txn: plain_bank.context.append(txn, EventType.LEARNED, trace.id, learned)
    )
    assert plain_bank.statistics().success_rate == 1.0


@requirement("OBS-1")
def test_the_queue_is_told_with_its_depth_and_age(plain_bank, clock):
    plain_bank.distil(a_trace())
    clock.advance(days=1)
    plain_bank.distil(a_trace())
    queue = plain_bank.statistics().queue
    assert plain(queue) == {"waiting": 2, "running": 0, "dead": 0, "oldest_seconds": 86_400.0}


class Chat(BaseHTTPRequestHandler):
    """A language model that answers the same to everybody, and says what it cost."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "Hello"}
        body = {
            "id": "1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                      "cost": 0.000_25},
        }  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def model_settings():
    server = HTTPServer(("127.0.0.1", 0), Chat)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    yield replace(HASHED, llm=LLM(provider="openai-compatible", model="m", base_url=url))
    server.shutdown()
    thread.join()
    server.server_close()


@requirement("OBS-1")
def test_what_models_did_is_added_up_over_processes(open_bank, model_settings):
    async def ask(bank, *questions):
        model = model_for(bank.store)
        for question in questions:
            await model.complete([user(question)])
        await model.close()

    with open_bank(settings=model_settings) as bank:
        assert bank.statistics().model is None
        anyio.run(ask, bank, "a", "b")
        seen = bank.statistics().model
        assert (seen.calls, seen.retries, seen.cache_misses) == (2, 0, 2)
        assert (seen.input_tokens, seen.output_tokens, seen.cost) == (200, 40, 0.000_5)
        assert seen.reasoning_tokens is None
    with open_bank(settings=model_settings) as bank:
        anyio.run(ask, bank, "a", "a")
        numbers = bank.statistics()
        assert (numbers.model.calls, numbers.process.model.calls) == (3, 1)
        assert numbers.model.cache_hits == 1
        assert numbers.model.cache_hit_rate == 0.25 and numbers.process.model.cache_hit_rate == 0.5
        assert numbers.query_cache.hit_rate is None, "questions to models are not searches"
        assert "reasonbank_model_cache_hits_total 1" in render(bank)
        assert numbers.model.cost == 0.000_75
        assert "reasonbank_model_cost_dollars_total 0.00025" in render(bank)
        bank.reset_statistics()
        assert bank.statistics().model is None
    assert open_bank().statistics().model is None


@requirement("LLM-2")
@requirement("OBS-1")
def test_a_model_that_is_opened_anew_finds_the_replies_of_the_one_before(open_bank, model_settings):
    """Each task has a model of its own, and one cache."""

    async def ask(bank):
        model = model_for(bank.store)
        await model.complete([user("a")])
        await model.close()

    with open_bank(settings=model_settings) as bank:
        for _ in range(4):
            anyio.run(ask, bank)
        used = bank.statistics().model
        assert (used.calls, used.cache_hits, used.cache_hit_rate) == (1, 3, 0.75)


@requirement("OBS-1")
def test_growth_is_what_is_new_here_and_still_there(open_bank, clock):
    bank = open_bank()
    bank.record(a_memory())
    clock.advance(days=20)
    gone = bank.record(a_memory(title="Another"))
    clock.advance(days=2)
    bank.record(a_memory(title="A third"))
    growth = bank.statistics().growth
    assert (growth.day, growth.week, growth.month) == (1, 2, 3)
    bank.forget(gone.id)
    assert bank.statistics().growth.week == 1
    other = bank.within("/another/project")
    assert other.statistics().growth.month == 0
    assert other.statistics(everywhere=True).growth.month == 2


@requirement("OBS-2")
def test_a_use_is_shown_at_once(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.search("retry uploads")
    assert plain_bank.get(memory.id).usage_count == 1


@requirement("OBS-2")
def test_what_is_not_known_is_null(plain_bank):
    numbers = plain_bank.statistics()
    unknown = {name for name, value in plain(numbers).items() if value is None}
    assert unknown == {"success_rate", "since", "cache_hit_rate", "model"}
    assert numbers.query_cache.hit_rate is None
    assert numbers.queue.oldest_seconds is None


@requirement("OBS-2")
def test_numbers_outlive_the_process_and_say_what_this_one_saw(open_bank, clock):
    with open_bank() as bank:
        bank.record(a_memory())
        bank.search("retry uploads")
        bank.search("zebra")
        seen = bank.statistics()
    clock.advance(days=1)
    numbers = open_bank().statistics()
    for name in ("searches", "latency", "query_cache", "since"):
        assert getattr(numbers, name) == getattr(seen, name)
    assert numbers.process.searches.answered == 0
    assert plain(numbers.process.latency.retrieval) == NEVER
    assert numbers.process.started > numbers.since
    assert numbers.process.uptime >= 0


@requirement("OBS-2")
def test_a_reset_begins_anew_and_says_since_when(open_bank, clock):
    bank = open_bank()
    bank.record(a_memory())
    bank.search("retry uploads")
    clock.advance(days=2)
    bank.reset_statistics()
    numbers = bank.statistics()
    assert numbers.searches.answered == numbers.process.searches.answered == 0
    assert plain(numbers.latency.retrieval) == NEVER
    assert f"{numbers.since:%Y-%m-%d}" == "2026-03-03"
    assert numbers.memories == 1
    bank.search("retry uploads")
    bank.close()
    assert open_bank().statistics().searches.answered == 1


SEARCHES = """
import sys
from reasonbank import Bank, Settings
from reasonbank.settings import Embed
url, folder = sys.argv[1:]
with Bank.open(url, workspace=folder, settings=Settings(embed=Embed(model="hashed"))) as bank:
    for number in range(25):
        bank.search("retry uploads" if number % 5 else "zebra")
        if number % 7 == 0:
            bank.statistics()
"""


@requirement("OBS-2")
def test_several_processes_add_up_without_loss(open_bank):
    with open_bank() as bank:
        bank.record(a_memory())
    arguments = [sys.executable, "-c", SEARCHES, open_bank.url(), str(open_bank.project())]
    started = [subprocess.Popen(arguments) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    numbers = open_bank().statistics()
    assert plain(numbers.searches) == {
        "answered": 75, "empty": 15, "weak": 0, "degraded": 75, "failed": 0,
    }  # fmt: skip
    assert numbers.query_cache.hits + numbers.query_cache.misses == 75
    assert numbers.latency.retrieval.count == 75


def test_a_bank_that_is_only_read_counts_for_its_process(open_bank):
    with open_bank() as bank:
        bank.record(a_memory())
        bank.embed_new()
    with open_bank(read_only=True) as bank:
        bank.search("retry uploads")
        assert bank.statistics().searches.answered == 1
    assert open_bank().statistics().searches.answered == 0


def test_a_bank_of_the_first_version_upgrades_itself(open_bank, tmp_path):
    trace = a_trace(outcome=Outcome.FAILURE)
    old = tmp_path / "bank.db"
    connection = Connection(old, vfs=None)
    STEPS[0](connection)
    db = connection.handle
    db.pragma("application_id", APPLICATION_ID)
    db.execute("insert into meta values ('bank_id', 'b'), ('half_life', '180.0')")
    db.execute(
        "insert into events values (1, 'e', 'trace.stored', ?, 'w', 5, 'b', 'a', 'cli', ?)",
        (trace.id, json.dumps({"trace": trace.to_json(), "at": 5})),
    )
    db.execute("insert into traces values (?, 'w', 5, 1)", (trace.id,))
    db.pragma("user_version", 1)
    db.close()

    with pytest.raises(StorageError, match="without read_only"):
        open_bank(read_only=True)
    bank = open_bank()
    assert bank.statistics(everywhere=True).traces_by_outcome == {"failure": 1}
    bank.record(a_memory())
    bank.search("retry uploads")
    assert bank.statistics().searches.answered == 1


@pytest.fixture
def anyio_backend():
    return "asyncio"


def steady(numbers):
    """Without what passes by itself."""
    return {**numbers, "process": {**numbers["process"], "uptime": 0}}


@pytest.mark.anyio
@requirement("OBS-2")
async def test_the_same_from_library_and_mcp(open_bank):
    bank = open_bank()
    bank.record(a_memory())
    bank.search("retry uploads")
    async with Client(make_server(bank)) as client:
        told = (await client.call_tool("get_statistics", {})).structured_content
        health = (await client.call_tool("health_check", {})).structured_content
    assert steady(told) == steady(plain(bank.statistics()))
    assert set(told) == set(shapes.shape_of(Statistics).__annotations__)
    assert set(told["process"]) == set(shapes.shape_of(Process).__annotations__)
    assert health["cache_hit_rate"] == told["cache_hit_rate"] == 0.0
    assert health["memory_count"] == 1


@requirement("OBS-2")
def test_the_same_from_library_and_command(open_bank, monkeypatch):
    monkeypatch.setenv("REASONBANK_EMBED_MODEL", "hashed")
    with open_bank() as bank:
        bank.record(a_memory())
        bank.search("retry uploads")
        numbers = bank.statistics()
    options = ["--bank", open_bank.url(), "--workspace", str(open_bank.project())]
    told = json.loads(CliRunner().invoke(main, [*options, "stats", "--json"]).stdout)
    own = {"process": 0, "growth": 0}  # What is new is told by the clock of whoever asks.
    assert {**told, **own} == {**plain(numbers), **own}
    shown = CliRunner().invoke(main, [*options, "stats"]).stdout
    assert "success rate" in shown and "p95" in shown and "not known" in shown
    again = json.loads(CliRunner().invoke(main, [*options, "stats", "--reset", "--json"]).stdout)
    assert again["searches"]["answered"] == 0
    assert again["since"] > told["since"]
