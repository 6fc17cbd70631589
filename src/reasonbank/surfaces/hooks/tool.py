"""The call of a tool, as agents tell of it: what ran, on which file, and how it went."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from reasonbank.surfaces.agents import Event
from reasonbank.values import valueclass


@valueclass(frozen=True, slots=True, kw_only=True)
class Call:
    name: str = ""
    command: str = ""
    path: str = ""
    output: str = ""
    failed: bool | None = None
    own: bool = False


OURS = re.compile(r"(?:mcp_{1,2})?(?:plugin_reasonbank_)?reasonbank[-_/:]|MCP:memory_")
"""mcp__reasonbank__memory_search (Claude Code, Codex, Qwen Code; with plugin_ from a plugin),
mcp_reasonbank_… (Gemini CLI), reasonbank-… (Copilot CLI), reasonbank_… (opencode), MCP:memory_…
(Cursor, which leaves the server's name out)."""

_STARTER = (
    r"\w{1,40}=\S{0,60}|uvx|(?:uv|pipx)\s{1,4}run|python[\d.]{0,6}\s{1,4}-m|env|exec|nice|time"
)
RUNS_US = re.compile(
    rf"\s{{0,20}}(?:(?:{_STARTER})\s{{1,4}}){{0,6}}(?:\S{{0,200}}/)?"
    r"reasonbank(?:\.surfaces\.cli)?(?:\s|$)"
)
NEXT_COMMAND = re.compile(r"&&|\|\||[;|\n`]|\$\(")

PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,900})$", re.MULTILINE)
SHELLS = ("sh", "bash", "zsh", "dash")
PATHS = ("file_path", "filePath", "notebook_path", "absolute_path", "target_file", "path")

EXITS = (
    re.compile(r"^Exit Code: (-?\d{1,9})$", re.MULTILINE),  # Gemini CLI, Qwen Code
    re.compile(
        r"<(?:shellId: \S{1,99} )?(?:completed|exited) with exit code (-?\d{1,9})>\s{0,9}\Z"
    ),  # Copilot CLI
)
HEADING = re.compile(r"\AExit code \d{1,9}\n")  # Claude Code
FRAME = re.compile(
    r"(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): .{0,500}"
    r"|<[^<>]{0,200}with exit code -?\d{1,9}>"
)
"""Lines that Gemini CLI, Qwen Code and Copilot CLI put below what a command printed."""

PATCH_EXIT = re.compile(r"\AExit code: (-?\d{1,9})$", re.MULTILINE)  # Codex, of its patches only


def read(event_name: str, event: Event, payload: Mapping[str, Any]) -> Call:
    if event not in (Event.BEFORE_TOOL, Event.AFTER_TOOL):
        return Call()
    name = text(payload, "tool_name", "toolName")
    given = mapping(_either(payload, "tool_input", "toolArgs", "toolInput"))
    command, path = _what(given)
    result = _either(payload, "tool_response", "toolResult", "tool_output")
    output = text(payload, "error", "error_message") or said(result)
    return Call(
        name=name,
        command=command,
        path=path,
        output=_printed(output) if command else output,
        failed=_failed(event_name, payload, result, command, output)
        if event is Event.AFTER_TOOL
        else None,
        own=_own(name, command, payload),
    )


def text(payload: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = payload.get(name)
        if isinstance(value, str):
            return value
    return ""


def mapping(value: object) -> Mapping[str, Any]:
    """Some versions send JSON within JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def said(result: object, deep: int = 4) -> str:
    """The text of a result, in whichever of its fields an agent puts it."""
    if isinstance(result, str):
        inner = mapping(result) if deep else {}
        return said(inner, deep - 1) or result if inner else _unwrapped(result)
    if isinstance(result, list):
        parts = (text(part, "text") for part in result if isinstance(part, Mapping))
        return _unwrapped("\n".join(part for part in parts if part))
    if not isinstance(result, Mapping) or not deep:
        return ""
    for name in ("llmContent", "textResultForLlm", "content", "output"):
        if found := result.get(name):
            return said(found, deep - 1)
    streams = (text(result, "stdout"), text(result, "stderr"), text(result, "error"))
    return "\n".join(part for part in streams if part)


def _unwrapped(text: str) -> str:
    """Gemini's mark around what came from outside."""
    return text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")


def _printed(output: str) -> str:
    """What a command printed, without what an agent puts around it."""
    output = HEADING.sub("", output)
    lines = output.split("\n")
    framed = output.startswith(("Output: ", "Command: ", "Directory: "))
    begins = next((at for at, line in enumerate(lines) if line.startswith("Output: ")), None)
    if framed and begins is not None:
        lines = [lines[begins].removeprefix("Output: "), *lines[begins + 1 :]]
    while lines and (not lines[-1] or FRAME.fullmatch(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def _either(payload: Mapping[str, Any], *names: str) -> object:
    return next((payload[name] for name in names if payload.get(name) is not None), None)


def _what(given: Mapping[str, Any]) -> tuple[str, str]:
    """The command and the file; of a patch, which some send as a command, only the file."""
    command = _either(given, "command", "cmd")
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        through = len(words) == 3 and words[0].rsplit("/")[-1] in SHELLS and "c" in words[1]
        command = words[2] if through else shlex.join(words)
    command = command if isinstance(command, str) else ""
    patch = command or text(given, "patchText", "patch", "input")
    if "*** Begin Patch" in patch and (patched := PATCHED.search(patch)):
        return "", patched[1].strip()
    return command, text(given, *PATHS)


def _own(name: str, command: str, payload: Mapping[str, Any]) -> bool:
    servers = (
        text(mapping(payload.get("mcp_context")), "server_name"),
        text(mapping(payload.get("mcp_server")), "name"),
    )
    return (
        OURS.match(name) is not None
        or any(server.rsplit(":")[-1] == "reasonbank" for server in servers)
        or any(RUNS_US.match(each) for each in NEXT_COMMAND.split(command))
    )


def _failed(
    event_name: str, payload: Mapping[str, Any], result: object, command: str, output: str
) -> bool | None:
    """None where nobody can tell: whoever was interrupted did not fail, and Codex keeps the exit
    code of a command to itself."""
    fields = mapping(result)
    if payload.get("is_interrupt") is True or fields.get("interrupted") is True:
        return None
    if event_name.endswith("Failure"):
        return True
    for name in ("exit", "exitCode", "exit_code"):
        if isinstance(code := fields.get(name), int):
            return code != 0
    if isinstance(wrong := fields.get("isError"), bool):
        return wrong
    if fields.get("error"):
        return True
    patterns = EXITS if command else (PATCH_EXIT,)
    if codes := [code for pattern in patterns for code in pattern.findall(output)]:
        return bool(int(codes[-1]))
    match fields.get("resultType"):
        case "success":
            return False
        case "failure" | "error" | "timeout":
            return True
    return None if not fields or "resultType" in fields else False
