"""A model that follows a script: four APIs in one small server on loopback.

    with serving(steps) as model:     model.url, and model.requests: what was asked, in order

A step says something and calls tools by what they do; `calls.py` finds the agent's own names. A
request that offers no tools (a title, a summary) gets "ok" and does not advance the script; after
the last step the model has nothing more to do, however often it is asked.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents import apis
from tests.agents.calls import Step, found

MAX_BODY = 64_000_000


@dataclass(slots=True)
class Model:
    steps: Sequence[Step]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    at: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, api: apis.Api, body: dict[str, Any]) -> apis.Said:
        offered = api.tools(body)
        if not offered:
            return apis.Said("ok")
        with self.lock:
            self.requests.append(body)
            at, self.at = self.at, self.at + 1
        if at >= len(self.steps):
            return apis.Said("Nothing more to do.")
        step = self.steps[at]
        return apis.Said(step.say, [found(call, offered, api.name, body) for call in step.calls])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send("application/json", b"")

    def do_GET(self) -> None:
        if "/models" in self.path:
            entry = {"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}
            return self.send_json({"object": "list", "data": [entry]})
        self.send_json({}, 404)

    def do_POST(self) -> None:
        path, body = self.path.split("?")[0], self.body()
        if path.endswith("/count_tokens"):
            return self.send_json({"input_tokens": len(json.dumps(body)) // 4})
        if path.endswith(":countTokens"):
            return self.send_json({"totalTokens": len(json.dumps(body)) // 4})
        api = next((api for api in apis.APIS if api.ending in path), None)
        if api is None:
            return self.send_json({"error": {"message": "not scripted"}}, 404)
        said = self.model.answer(api, body)
        reply = api.reply(body.get("model") or "scripted", said, int(time.time()))
        if not (body.get("stream") or "stream" in path):
            return self.send_json(reply.whole)
        lines = [
            (f"event: {each['type']}\n" if reply.named else "") + f"data: {json.dumps(each)}\n\n"
            for each in reply.events
        ]
        self.send("text/event-stream", "".join([*lines, reply.last]).encode())

    def body(self) -> dict[str, Any]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(min(int(self.headers.get("content-length") or 0), MAX_BODY))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        value = json.loads(raw or b"{}")
        return value if isinstance(value, dict) else {}

    def send_json(self, value: object, status: int = 200) -> None:
        self.send("application/json", json.dumps(value).encode(), status)

    def send(self, kind: str, raw: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def serving(steps: Sequence[Step], port: int = 0) -> Iterator[Model]:
    model = Model(steps)
    server = ThreadingHTTPServer(
        ("127.0.0.1", port), type("Scripted", (Handler,), {"model": model})
    )
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
