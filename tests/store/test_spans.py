"""OpenTelemetry spans: by the GenAI conventions, without a word of what was asked or stored."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.requirement import requirement

from reasonbank import Forgotten, InvalidSetting, Settings
from reasonbank.settings import Embed, Telemetry
from reasonbank.testing import a_memory

SECRET = "Xylophone"


@pytest.fixture
def spans(monkeypatch):
    """What the program that embeds the bank would collect."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process may configure it only once; the next test wants its own.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@requirement("OBS-2")
def test_a_search_is_a_span_with_its_embedding_inside(open_bank, spans):
    bank = open_bank()
    bank.record(a_memory())
    bank.search("retry uploads")
    bank.search("retry uploads")
    created, embedding, search, again = [
        s for s in spans.get_finished_spans() if s.instrumentation_scope.name == "reasonbank"
    ]
    assert [s.name for s in (created, search, again)] == [
        "create_memory", "search_memory", "search_memory",
    ]  # fmt: skip
    assert embedding.name == f"embeddings {bank.store.indexing.embedder.name}"
    assert embedding.parent.span_id == search.context.span_id
    assert dict(search.attributes) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "reasonbank",
        "gen_ai.memory.store.id": bank.view.workspace,
        "gen_ai.memory.record.count": 1,
        "reasonbank.degraded": True,
    }


@requirement("OBS-2")
def test_what_fails_says_its_kind_and_no_text(open_bank, spans):
    bank = open_bank()
    memory = bank.record(a_memory(title=SECRET, content=f"{SECRET} again"))
    bank.update(memory.id, content=f"{SECRET} once more")
    bank.search(SECRET)
    bank.forget(memory.id)
    with pytest.raises(Forgotten):
        bank.forget(memory.id)
    told = spans.get_finished_spans()
    assert [s.name for s in told if "memory" in s.name] == [
        "create_memory", "update_memory", "search_memory", "delete_memory", "delete_memory",
    ]  # fmt: skip
    assert told[-1].attributes["error.type"] == "Forgotten"
    assert not told[-1].status.is_ok
    assert SECRET not in "".join(span.to_json() for span in told)


def test_nothing_is_recorded_unless_somebody_configured_it():
    code = (
        "import sys; from reasonbank import Bank, Settings; from reasonbank.settings import Embed\n"
        "from reasonbank.store.spans import NOTHING, span\n"
        "assert span('search_memory', {}) is NOTHING\n"
        "assert not any('opentelemetry' in name for name in sys.modules)\n"
        "import opentelemetry.trace\n"
        "assert span('search_memory', {}) is NOTHING\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


TO_A_COLLECTOR = """
import sys
from reasonbank import Bank, Settings
from reasonbank.settings import Embed, Telemetry
settings = Settings(embed=Embed(model="hashed"), telemetry=Telemetry(endpoint=sys.argv[2]))
with Bank.open(sys.argv[1], settings=settings) as bank:
    bank.search("Xylophone")
"""


@requirement("OBS-2")
def test_the_setting_sends_spans_to_a_collector(open_bank):
    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces?key=hush"
        run = [sys.executable, "-c", TO_A_COLLECTOR, open_bank.url(), endpoint]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    ((path, body),) = bodies
    assert path == "/v1/traces?key=hush"
    assert b"search_memory" in body
    assert b"Xylophone" not in body
    assert "hush" not in done.stdout + done.stderr


def test_a_collector_that_is_down_is_told_without_the_key_in_its_address(open_bank):
    endpoint = "http://user:hush@127.0.0.1:1/v1/traces?key=hush"
    run = [sys.executable, "-c", TO_A_COLLECTOR, open_bank.url(), endpoint]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "OpenTelemetry: " in done.stderr
    assert "hush" not in done.stdout + done.stderr


WITHOUT_THE_SDK = """
import sys
sys.modules["opentelemetry.sdk"] = None
from reasonbank import Bank, InvalidSetting, Settings
from reasonbank.settings import Telemetry
try:
    Bank.open(sys.argv[1], settings=Settings(telemetry=Telemetry(endpoint="http://127.0.0.1:1")))
except InvalidSetting as error:
    print(error)
"""


def test_a_missing_sdk_is_named_with_its_installation(open_bank):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_SDK, open_bank.url()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "pip install 'reasonbank[telemetry]'" in done.stdout


def test_a_wrong_endpoint_is_refused_without_repeating_it(open_bank):
    settings = Settings(
        embed=Embed(model="hashed"), telemetry=Telemetry(endpoint="tcp://user:hush@127.0.0.1")
    )
    with pytest.raises(InvalidSetting, match=r"telemetry\.endpoint") as caught:
        open_bank(settings=settings)
    assert "hush" not in str(caught.value)
