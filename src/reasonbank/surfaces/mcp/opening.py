"""What a client says first, answered before anything heavy is loaded.

A client that starts its server gives it little time, and goes on without its tools: the SDK and
the bank take many times as long as it takes to say which tools there are. That never changes
while a server runs, so it is written down (`opening-all.json`, `opening-core.json`, by
`python -m tools.opening`), and a test compares it with what the SDK answers.

Only what is certain is answered here: whatever is unusual about a message, it is left to the SDK.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ID = "reasonbank-opening"
"""Under this id the SDK is told of the request that was answered here, and answers to nobody."""
LONGEST = 16_384
ENVELOPE = "io.modelcontextprotocol/protocolVersion"
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
OPENERS = ("initialize", "server/discover")
FOLDER = os.path.dirname(__file__)


class Opening:
    """Answers lines of a client, each with a line of its own, or leaves it to the server."""

    def __init__(self, tools: str) -> None:
        self._tools = tools
        self._revision = ""
        self._modern = False
        self._answers: dict[str, Any] = {}
        self.replay = b""
        """What the client opened with: the server must be told of it, before all else."""
        self.listed = False
        """Whether the client knows the tools: it then has what it needs for its first turn."""
        self.waits = False
        """Whether something waits for the server; what comes later then waits behind it."""

    @property
    def answered(self) -> bool:
        return bool(self.replay)

    def answer(self, line: bytes) -> bytes | None:
        """The line to answer with; None: this one is for the server."""
        said = None if self.waits else self.known(line)
        if said is None:
            # Who does not open as usual is the SDK's from the first line on.
            self.waits = self.waits or not self.answered or not _needs_no_answer(line)
        return said

    def known(self, line: bytes) -> bytes | None:
        request = _request(line)
        if request is None:
            return None
        if not self.answered:
            return self._opened(request)
        method = request["method"]
        if method == "initialize" or method not in self._answers or not self._usual(request):
            return None
        self.listed = self.listed or method == "tools/list"
        return _line(request["id"], self._answers[method])

    def _opened(self, request: dict[str, Any]) -> bytes | None:
        method, params = request["method"], request.get("params")
        if method not in OPENERS or not isinstance(params, dict):
            return None
        known = _document(self._tools)
        if method == "initialize":
            revision = params.get("protocolVersion")
            if not _hello(params, "clientInfo", "capabilities") or not isinstance(revision, str):
                return None
            if revision not in known["handshake"]:
                revision = known["handshake"][-1]
        else:
            revision = _enveloped(params) or ""
            if revision not in known["modern"]:
                return None
        self._revision, self._modern = revision, method != "initialize"
        answers = known["revisions"][revision]
        self._answers = {name: known["answers"][place] for name, place in answers.items()}
        self.replay = _dumped(request | {"id": ID})
        return _line(request["id"], self._answers[method])

    def _usual(self, request: dict[str, Any]) -> bool:
        """Whether it asks for all there is, as a client of this revision does."""
        params = request.get("params", {})
        if not isinstance(params, dict) or params.keys() - {"_meta"}:
            return False
        if self._modern:
            return bool(_enveloped(params) == self._revision)
        return _meta(params) and ENVELOPE not in params.get("_meta", {})


def _needs_no_answer(line: bytes) -> bool:
    """Whether it is a notification: nobody waits for what it causes."""
    try:
        told = json.loads(line) if len(line) <= LONGEST else None
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and "id" not in told and "method" in told


def refusal(line: bytes, reason: str) -> bytes | None:
    """The answer to a line where there is no server; None where none is due."""
    request = _request(line, most=None)
    if request is None or request["id"] == ID:
        return None
    if request["method"] != "tools/call":
        problem = {"code": -32603, "message": reason}
        return _dumped({"jsonrpc": "2.0", "id": request["id"], "error": problem})
    told: dict[str, Any] = {"content": [{"type": "text", "text": reason}], "isError": True}
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if isinstance(meta, dict) and ENVELOPE in meta:
        told["resultType"] = "complete"
    return _line(request["id"], told)


def _request(line: bytes, most: int | None = LONGEST) -> dict[str, Any] | None:
    """A request like any other. An escape may stand for half a character, which is an error."""
    if most is not None and (len(line) > most or b"\\u" in line):
        return None
    try:
        told = json.loads(line.decode(), parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.keys() - {"jsonrpc", "id", "method", "params"}:
        return None
    id = told.get("id")
    named = isinstance(id, str) or (type(id) is int and abs(id) < 2**53)
    usual = told.get("jsonrpc") == "2.0" and isinstance(told.get("method"), str) and named
    return told if usual else None


def _refused(constant: str) -> None:
    raise ValueError(constant)  # NaN and its like are no JSON.


def _hello(told: dict[str, Any], client: str, capabilities: str) -> bool:
    """Whether a client says who it is and what it can, in the usual shape."""
    name, can = told.get(client), told.get(capabilities)
    return (
        isinstance(name, dict)
        and name.keys() >= {"name", "version"}
        and all(isinstance(part, str) for part in name.values())
        and isinstance(can, dict)
        and all(_usual_part(part) for part in can.values())
        and _meta(told)
    )


def _usual_part(capability: object) -> bool:
    return isinstance(capability, dict) and all(
        isinstance(part, bool if name == "listChanged" else dict)
        for name, part in capability.items()
    )


def _meta(params: dict[str, Any]) -> bool:
    meta = params.get("_meta", {})
    return isinstance(meta, dict) and type(meta.get("progressToken", 0)) in (int, str)


def _enveloped(params: dict[str, Any]) -> str | None:
    """The revision that a request names for itself, as clients have done since 2026-07-28."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or not _meta(params) or params.keys() - {"_meta"}:
        return None
    revision = meta.get(ENVELOPE)
    told = isinstance(revision, str) and _hello(meta, CLIENT, CAPABILITIES)
    return revision if told else None


def _document(tools: str) -> Any:
    with open(os.path.join(FOLDER, f"opening-{tools}.json"), encoding="utf-8") as file:
        return json.load(file)


def _line(id: int | str, result: Any) -> bytes:
    return _dumped({"jsonrpc": "2.0", "id": id, "result": result})


def _dumped(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"
