"""What a search costs through a server, beside the same search in process.

    python -m bench.server [--size 10000] [--repeat 5] [--queries 100] [--clients 8] [--seconds 5]

Contestants take turns on every question, in a random order, over one connection each; of
each question the fastest round counts for the mean, every round for p99. Questions are
cached by the time they count. The clients are bare: a pipe, and HTTP kept alive; the time
that an agent's own library takes is not ours to measure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from bench import speed_corpus, tables
from bench.speed import copied, opened_at
from bench.speed_corpus import WORKSPACE
from bench.tables import Table
from reasonbank.bank import Bank
from reasonbank.ledger.port import Filter
from reasonbank.model import Scope

REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": REVISION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "memory_search",
}
Search = Callable[[str], object]
STDIO_MS = 3
TIMES = 1.5


def started(path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "reasonbank.surfaces.cli", *arguments]
    place = ["--bank", f"sqlite:///{path}", "--workspace", WORKSPACE]
    # All clients have one address here, and would share what one caller may ask for.
    settings = os.environ | {"REASONBANK_SERVER_RATE": "1000000"}
    return subprocess.Popen(
        [*command, *place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=settings
    )


def address_of(server: subprocess.Popen[bytes]) -> str:
    assert server.stdout
    address: str = json.loads(server.stdout.readline())["address"]
    return address


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def asked(query: str) -> bytes:
    params = {"name": "memory_search", "arguments": {"query": query}, "_meta": META}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(request).encode()


def checked(answer: bytes) -> bytes:
    assert b'"isError":false' in answer.replace(b" ", b""), answer[:500]
    return answer


def over_stdio(process: subprocess.Popen[bytes]) -> Search:
    assert process.stdin
    assert process.stdout
    send, receive = process.stdin, process.stdout

    def search(query: str) -> bytes:
        send.write(asked(query) + b"\n")
        send.flush()
        return checked(receive.readline())

    return search


def over_http(address: str) -> Search:
    connection = http.client.HTTPConnection(urlsplit(address).netloc)

    def search(query: str) -> bytes:
        connection.request("POST", "/mcp", asked(query), HEADERS)
        return checked(connection.getresponse().read())

    return search


def api(address: str) -> Search:
    connection = http.client.HTTPConnection(urlsplit(address).netloc)

    def search(query: str) -> bytes:
        body = json.dumps({"query": query, "limit": 5, "min_confidence": 0.5})
        connection.request("POST", "/api/v1/search", body, HEADERS)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()[:500]
        return answer.read()

    return search


@contextmanager
def chroma_server(bank: Bank, queries: list[str]) -> Iterator[Callable[[], Search] | None]:
    """Chroma's own server with the same memories; the vectors of the questions are ready."""
    command = Path(sys.executable).with_name("chroma")
    if not command.exists():
        yield None
        return
    import chromadb

    embed = bank.store.indexing.embedder.embed
    bodies = {
        query: json.dumps(
            {"query_embeddings": [vector.tolist()], "n_results": 5,
             "include": ["documents", "distances"]}
        )
        for query, vector in zip(queries, embed(queries), strict=True)
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        arguments = [str(command), "run", "--path", folder, "--port", str(port)]
        with ended(
            subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ):
            client = _reached(chromadb, port)
            collection = client.get_or_create_collection(
                "bench", metadata={"hnsw:space": "cosine"}, embedding_function=None
            )
            memories = bank.memories(limit=1_000_000)
            nums = [row.num for row in bank.store.ledger.read().listed(
                bank.view, Filter(scopes=tuple(Scope)), 1_000_000)]  # fmt: skip
            vectors = bank.store.indexing.index.vectors(np.array(nums, np.int64))
            for start in range(0, len(memories), 2000):
                part = memories[start : start + 2000]
                collection.upsert(
                    ids=[memory.id for memory in part],
                    embeddings=vectors[start : start + len(part)],
                    documents=[memory.format_for_prompt() for memory in part],
                )
            path = (
                "/api/v2/tenants/default_tenant/databases/default_database/collections/"
                f"{collection.id}/query"
            )

            def connect() -> Search:
                connection = http.client.HTTPConnection("127.0.0.1", port)

                def search(query: str) -> bytes:
                    connection.request("POST", path, bodies[query], HEADERS)
                    answer = connection.getresponse()
                    assert answer.status == 200, answer.read()[:500]
                    return answer.read()

                return search

            yield connect


def _reached(chromadb: Any, port: int) -> Any:
    until = time.monotonic() + 60
    while True:
        try:
            return chromadb.HttpClient(
                "127.0.0.1", port, settings=chromadb.Settings(anonymized_telemetry=False)
            )
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def timed(
    contestants: dict[str, Search], queries: list[str], repeat: int
) -> dict[str, tuple[float, float]]:
    """Milliseconds of each: the mean of the fastest rounds, and p99 of all."""
    rounds: dict[str, dict[str, list[float]]] = {name: {} for name in contestants}
    order, rng = list(contestants), random.Random(0)
    for turn in range(repeat + 1):
        for query in queries:
            rng.shuffle(order)
            for name in order:
                begun = time.perf_counter()
                contestants[name](query)
                if turn:
                    took = 1000 * (time.perf_counter() - begun)
                    rounds[name].setdefault(query, []).append(took)
    return {
        name: (
            sum(min(times) for times in of.values()) / len(of),
            sorted(t for times in of.values() for t in times)[int(len(of) * repeat * 0.99)],
        )
        for name, of in rounds.items()
    }


def rate(connect: Callable[[], Search], queries: list[str], clients: int, seconds: float) -> float:
    """Searches a second of so many clients at once, each with a connection of its own.

    Each goes through all questions once before that counts.
    """
    ready = threading.Barrier(clients)

    def work(number: int) -> int:
        search, count = connect(), 0
        for query in queries:
            search(query)
        ready.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            search(queries[(number + count) % len(queries)])
            count += 1
        return count

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(work, range(clients))) / seconds


def measure(given: argparse.Namespace) -> Table:
    table = Table(
        name="server",
        title=f"A search through a server, {given.size:,} memories",
        columns=("way", "ms", "more than in process", "p99 ms", f"/s, {given.clients} clients"),
        machine=tables.machine(),
    )
    queries = speed_corpus.sentences().queries[: given.queries]
    with ExitStack() as stack:
        path = stack.enter_context(copied(given.size))
        bank = stack.enter_context(opened_at(path))
        serve = ["serve", "--port", "0", "--json", "--no-auth"]
        address = address_of(stack.enter_context(ended(started(path, *serve))))
        cores = str(max(2, os.cpu_count() or 1))
        several = stack.enter_context(ended(started(path, *serve, "--processes", cores)))
        address_of_several = address_of(several)
        stdio = stack.enter_context(ended(started(path, "mcp")))
        here: Search = lambda q: bank.search(q, limit=5, min_confidence=0.5)  # noqa: E731
        ways: dict[str, tuple[Search, Callable[[], Search] | None]] = {
            "in process": (here, lambda: here),
            "MCP, standard streams": (over_stdio(stdio), None),
            "MCP, HTTP": (over_http(address), lambda: over_http(address)),
            "JSON API": (api(address), lambda: api(address)),
            f"JSON API, --processes {cores}": (
                api(address_of_several), lambda: api(address_of_several)
            ),
        }  # fmt: skip
        if chroma := stack.enter_context(chroma_server(bank, queries)):
            ways["Chroma's server, vectors only"] = (chroma(), chroma)
        took = timed({name: way[0] for name, way in ways.items()}, queries, given.repeat)
        base = took["in process"][0]
        rates = {}
        for name, (_, connect) in ways.items():
            many = rate(connect, queries, given.clients, given.seconds) if connect else None
            rates[name] = many
            mean, p99 = took[name]
            table.add(
                name, tables.number(mean), f"{mean - base:+.2f}", tables.number(p99),
                tables.number(many) if many else "–",
            )  # fmt: skip
        bank.store.used.clear()
    more = took["MCP, standard streams"][0] - base
    theirs = rates.get("Chroma's server, vectors only")
    if theirs:
        several_of = f"JSON API, --processes {cores}"
        times, alone = ((rates[name] or 0) / theirs for name in (several_of, "JSON API"))
        table.notes.append(
            f"Target: the JSON API with {cores} processes answers ≥ {TIMES} × the searches a "
            f"second of Chroma's server, which uses all cores: "
            f"{'yes' if times >= TIMES else 'NO'} ({times:.2f} ×; one process {alone:.2f} ×). "
            "Ours fuses vectors with full text; Chroma is given the question's vector and "
            "compares vectors alone."
        )
    table.notes += [
        f"Target: a round trip over standard streams costs ≤ {STDIO_MS} ms more than the call in "
        f"process: {'yes' if more <= STDIO_MS else 'NO'} ({more:+.2f} ms).",
        "MCP answers carry each memory twice, as the protocol wants (structured and as text).",
        "The clients run on the same cores as the server.",
    ]
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    table = measure(parser.parse_args())
    tables.show(table)
    tables.keep("server", table)
    tables.rewrite_document()


if __name__ == "__main__":
    main()
