"""Is the bank well? Each part is looked at, and what is not well comes with its repair."""

import os
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank import Settings
from reasonbank.health import health, report, verdict
from reasonbank.settings import LLM, Embed
from reasonbank.testing import a_memory, a_trace

PARTS = ["store", "disk", "embedder", "model", "queue", "worker"]


def found(bank, name, *, deep=True):
    (check,) = [check for check in health(bank.context, deep=deep) if check.name == name]
    return check


@requirement("OBS-3")
@pytest.mark.parametrize("deep", [True, False])
def test_a_sound_bank_is_well_in_every_part(open_bank, deep):
    checks = health(open_bank.with_embedder(Fragile()).context, deep=deep)
    assert [check.name for check in checks] == PARTS
    assert {check.status for check in checks} == {"ok"}
    assert verdict(checks) == "ok"


@requirement("OBS-3")
@pytest.mark.parametrize("deep", [True, False])
def test_a_store_that_is_gone_is_told(open_bank, deep):
    bank = open_bank()
    bank.record(a_memory())
    for file in open_bank.folder.glob("bank.db*"):
        file.unlink()
    check = found(bank, "store", deep=deep)
    assert check.status == "fail" and "removed" in check.found and check.repair
    bank.close()
    check = found(bank, "store", deep=deep)
    assert check.status == "fail" and "closed" in check.found


@requirement("OBS-3")
def test_a_damaged_store_is_told_by_the_deep_look(open_bank):
    with open_bank() as bank:
        for number in range(300):
            bank.record(a_memory(title=f"Lesson {number}"))
    file = open_bank.folder / "bank.db"
    size = file.stat().st_size
    with file.open("r+b") as f:
        f.seek(size * 3 // 4 // 4096 * 4096)
        f.write(b"\xff" * 8192)
    bank = open_bank()
    assert found(bank, "store").status == "fail"
    assert verdict(health(bank.context)) == "fail"


@requirement("OBS-3")
@pytest.mark.parametrize("deep", [True, False])
def test_an_embedder_that_does_not_answer_is_told(open_bank, deep):
    embedder = Fragile()
    bank = open_bank.with_embedder(embedder)
    embedder.broken = True
    check = found(bank, "embedder", deep=deep)
    assert check.status == "fail" and "on holiday" in check.found and check.repair


@requirement("OBS-3")
def test_a_disk_that_is_nearly_full_is_told(open_bank, monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=50_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    check = found(open_bank(), "disk")
    assert (check.status, check.repair) == ("warn", "free some space")


@contextmanager
def server(status):
    class Model(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    http = HTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/v1"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def with_model(open_bank, url, **known):
    llm = LLM(provider="openai-compatible", model="any", base_url=url, **known)
    return open_bank(settings=Settings(embed=Embed(model="hashed"), llm=llm))


@requirement("OBS-3")
@pytest.mark.parametrize(("answer", "status"), [(200, "ok"), (401, "fail"), (503, "warn")])
def test_the_models_server_is_asked(open_bank, answer, status):
    with server(answer) as url:
        check = found(with_model(open_bank, url), "model")
    assert check.status == status
    assert (check.repair is None) == (status == "ok")


@requirement("OBS-3")
def test_a_model_that_is_away_is_told_and_without_its_key(open_bank, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "hush-hush")
    bank = with_model(open_bank, "http://127.0.0.1:1/v1", key_env="SOME_KEY")
    check = found(bank, "model")
    assert check.status == "warn" and "does not answer" in check.found
    assert "hush" not in repr(health(bank.context))
    assert found(bank, "model", deep=False).status == "ok"
    monkeypatch.delenv("SOME_KEY")
    assert "SOME_KEY" in found(bank, "model").found


@requirement("OBS-3")
def test_a_queue_that_does_not_move_is_told(open_bank, clock):
    bank = open_bank()
    job = bank.distil(a_trace())
    assert found(bank, "queue").status == "ok"
    clock.advance(days=0.02)
    check = found(bank, "queue")
    assert check.status == "warn" and "29 minutes" in check.found and check.repair
    now = clock()
    taken = bank.context.write(lambda txn: txn.queue.claim_one(job.id, "w", now, now + 60_000_000))
    assert found(bank, "queue").status == "ok"
    bank.context.write(lambda txn: txn.queue.fail(taken, "no luck", None))
    check = found(bank, "queue")
    assert check.status == "warn" and "1 failed for good" in check.found
    assert "queue retry" in check.repair


def test_the_report_has_the_names_that_agents_know(open_bank):
    bank = open_bank()
    told = report(bank.context)
    assert told.status == "degraded"  # Hashed knows no meaning.
    assert told.memory_count == 0 and told.cache_hit_rate is None
    assert told.uptime >= 0
    assert os.path.exists(open_bank.folder / "bank.db")
