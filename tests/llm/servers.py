"""Real HTTP on loopback: a server that answers well or badly, as it is told."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# So that the SDK's own back-off does not make tests slow; it takes this as Retry-After.
AT_ONCE = {"retry-after-ms": "1"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    stuck: bool = False

    def __str__(self) -> str:
        how = "cut " if self.cut else "stuck " if self.stuck else ""
        return f"{how}{self.status} {self.body[:24].decode()}"


def of(data: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, json.dumps(data).encode(), {k.replace("_", "-"): v for k, v in
                                                      headers.items()})  # fmt: skip


def chat(text: str, model: str = "served-model", **extra: Any) -> Answer:
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    return of({"id": "1", "object": "chat.completion", "model": model, "choices": [choice],
               "usage": usage} | extra)  # fmt: skip


def responses(text: str, model: str = "served-model", **extra: Any) -> Answer:
    usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 30,
             "output_tokens_details": {"reasoning_tokens": 18}, "total_tokens": 50,
             "cost": 0.0025}  # fmt: skip
    output = [
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "id": "m", "status": "completed",
         "content": [{"type": "output_text", "text": text, "annotations": []}]},
    ]  # fmt: skip
    return of({"id": "1", "object": "response", "model": model, "status": "completed",
               "output": output, "usage": usage} | extra)  # fmt: skip


def message(text: str, model: str = "served-model", **extra: Any) -> Answer:
    usage = {"input_tokens": 15, "cache_read_input_tokens": 5, "output_tokens": 30,
             "output_tokens_details": {"thinking_tokens": 18}}  # fmt: skip
    return of({"id": "1", "type": "message", "role": "assistant", "model": model,
               "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
               "usage": usage} | extra)  # fmt: skip


def refused(status: int, said: str = "no", **headers: str) -> Answer:
    return of({"error": {"message": said, "type": "error"}}, status, **headers)


def busy(status: int) -> Answer:
    return Answer(status, b'{"error": {"message": "busy"}}', AT_ONCE)


CUT = Answer(body=chat("a long reply that never ends").body, cut=True)
STUCK = Answer(body=chat("a reply that stops half-way").body, stuck=True)
NOT_JSON = Answer(body=b'{"choices": [{"mess')
HTML = Answer(body=b"<html><h1>Welcome to nginx</h1>", headers={"content-type": "text/html"})
TRANSIENT = [busy(429), busy(500), busy(502), busy(503), busy(504), CUT, NOT_JSON, HTML]


class Server:
    """Answers from a list, the last for ever, or as a function says; keeps what was asked."""

    def __init__(self, answers: Iterable[Answer] | Callable[[Request], Answer]) -> None:
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._answers = answers if callable(answers) else self._in_turn(list(answers))
        self._over = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        # Found quickly: the default would make every test wait half a second to end.
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def _in_turn(self, answers: list[Answer]) -> Callable[[Request], Answer]:
        return lambda _: answers[min(len(self.requests), len(answers)) - 1]

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            return self._answers(request)

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Without this a reply in two pieces waits for the kernel's patience.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                raw = self.rfile.read(length)
                headers = {k.lower(): v for k, v in self.headers.items()}
                request = Request(self.command, self.path, headers, json.loads(raw or b"null"))
                self._send(server.answer(request))

            do_GET = do_POST

            def _send(self, answer: Answer) -> None:
                self.send_response(answer.status)
                headers = {"content-type": "application/json"} | answer.headers
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                if answer.cut or answer.stuck:
                    self.wfile.write(answer.body[: len(answer.body) // 2])
                    self.wfile.flush()
                    if answer.stuck:
                        server._over.wait()
                    self.close_connection = True
                    return
                self.wfile.write(answer.body)

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    pass  # The client had enough; that is what some tests are about.

            def log_message(self, *_: object) -> None: ...

        return Handler


def faulty(seed: int, share: float, good: Callable[[Request], Answer]) -> Callable[..., Answer]:
    """A fault in ``share`` of all requests, decided by who asks and how often, not by when."""
    attempts: dict[str, int] = {}

    def answer(request: Request) -> Answer:
        who = request.body["messages"][-1]["content"]
        attempts[who] = attempts.get(who, 0) + 1
        dice = random.Random(f"{seed} {who} {attempts[who]}")
        if dice.random() >= share:
            return good(request)
        # One in forty hangs: the client's time-out is the slowest thing here.
        return STUCK if dice.random() < 0.025 else dice.choice(TRANSIENT)

    return answer
