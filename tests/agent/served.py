"""A `Player` behind a real HTTP server on loopback, in the style of chat completions."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from reasonbank.errors import InvalidReply
from reasonbank.llm.port import Message, ModelCall, Usage
from tests.agent.player import Player


@contextmanager
def served(player: Player, cost: float | None = None) -> Iterator[dict[str, str]]:
    """The environment in which `reasonbank` finds this model; ``cost`` is what it says that each
    reply did."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = body.get("response_format", {}).get("json_schema", {}).get("schema")
            messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
            try:
                said = asyncio.run(player.answer(ModelCall(messages=messages, schema=asked)))
                text, used = said.text, said.usage
            except InvalidReply as error:
                text, used = error.reply, cast(Usage, error.usage)
            choice = {"index": 0, "finish_reason": "stop",
                      "message": {"role": "assistant", "content": text}}  # fmt: skip
            usage = {"prompt_tokens": used.input, "completion_tokens": used.output,
                     "total_tokens": used.tokens}  # fmt: skip
            usage |= {} if cost is None else {"cost": cost}
            told = {"id": "1", "object": "chat.completion", "created": 1, "model": "player",
                    "choices": [choice], "usage": usage}  # fmt: skip
            data = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "REASONBANK_LLM_PROVIDER": "openai-compatible",
            "REASONBANK_LLM_MODEL": "player",
            "REASONBANK_LLM_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
