"""Writes transcripts as Claude Code and Codex do, from a short notation."""

import json
import uuid
from dataclasses import dataclass


@dataclass(frozen=True)
class U:
    """The user says."""

    text: str


@dataclass(frozen=True)
class A:
    """The agent says."""

    text: str


@dataclass(frozen=True)
class C:
    """A command, its exit code (None: stopped by the user) and what it printed."""

    command: str
    code: int | None = 0
    output: str = ""


@dataclass(frozen=True)
class E:
    """An edit."""

    path: str
    change: str = "something = 1"


def _id(name, n):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}/{n}"))


def claude_code(name, steps):
    """The lines of a Claude Code transcript."""
    envelope = {"sessionId": _id(name, 0), "cwd": "/home/me/app", "version": "2.1.0",
                "gitBranch": "main", "isSidechain": False, "userType": "external"}  # fmt: skip
    lines = [{"type": "file-history-snapshot", "snapshot": {}}]

    def put(kind, content, **more):
        lines.append({**envelope, "type": kind, "uuid": _id(name, len(lines)),
                      "timestamp": "2026-03-01T12:00:00Z",
                      "message": {"role": kind, "content": content}, **more})  # fmt: skip

    def tool(tool_name, input, content, result, is_error=False):
        id = f"toolu_{len(lines)}"
        put("assistant", [{"type": "tool_use", "id": id, "name": tool_name, "input": input}])
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        put("user", [block | ({"is_error": True} if is_error else {})], toolUseResult=result)

    for step in steps:
        match step:
            case U(text):
                put("user", text)
            case A(text):
                put("assistant", [{"type": "thinking", "thinking": "hm"}])
                put("assistant", [{"type": "text", "text": text}])
            case C(command, 0, output):
                result = {"stdout": output, "stderr": "", "interrupted": False}
                tool("Bash", {"command": command}, output, result)
            case C(command, None, output):
                said = "The user doesn't want to proceed with this tool use."
                tool("Bash", {"command": command}, said, f"Error: {said}", is_error=True)
            case C(command, code, output):
                said = f"Exit code {code}\n{output}"
                tool("Bash", {"command": command}, said, f"Error: {said}", is_error=True)
            case E(path, change):
                input = {
                    "file_path": f"/home/me/app/{path}",
                    "old_string": "x",
                    "new_string": change,
                }
                tool("Edit", input, "The file has been updated.", {"filePath": path})
    return [json.dumps(line) for line in lines]


def codex(name, steps):
    """The lines of a Codex rollout."""
    lines = []

    def put(kind, payload):
        lines.append({"timestamp": "2026-03-01T12:00:00Z", "type": kind, "payload": payload})

    def say(role, text):
        kind = "input_text" if role == "user" else "output_text"
        content = [{"type": kind, "text": text}]
        put("response_item", {"type": "message", "role": role, "content": content})

    put("session_meta", {"id": _id(name, 0), "cwd": "/home/me/app", "cli_version": "0.90.0"})
    say("developer", "You are Codex.")
    say("user", "# AGENTS.md instructions for /home/me/app\n\nUse tabs.")
    say("user", "<environment_context>\n  <cwd>/home/me/app</cwd>\n</environment_context>")
    for step in steps:
        call = f"call_{len(lines)}"
        match step:
            case U(text):
                put("turn_context", {"turn_id": call, "cwd": "/home/me/app", "model": "gpt-5"})
                say("user", text)
            case A(text):
                say("assistant", text)
            case C(command, code, output):
                put("response_item", {
                    "type": "function_call", "name": "shell", "call_id": call,
                    "arguments": json.dumps({"command": ["bash", "-lc", command]}),
                })  # fmt: skip
                if code is None:
                    put("event_msg", {"type": "turn_aborted", "reason": "interrupted"})
                elif len(lines) % 2:
                    told = {"output": output, "metadata": {"exit_code": code}}
                    put("response_item", {"type": "function_call_output", "call_id": call,
                                          "output": json.dumps(told)})  # fmt: skip
                else:
                    told = f"Chunk ID: a1\nWall time: 1.0s\nProcess exited with code {code}\n"
                    put("response_item", {"type": "function_call_output", "call_id": call,
                                          "output": f"{told}Output:\n{output}"})  # fmt: skip
                    item = {"type": "CommandExecution", "command": ["bash", "-lc", command],
                            "exit_code": code, "aggregated_output": output}  # fmt: skip
                    put("event_msg", {"type": "item_completed", "item": item})
            case E(path, change):
                added = "\n".join(f"+{line}" for line in change.splitlines())
                patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-x\n{added}\n*** End Patch"
                put("response_item", {"type": "custom_tool_call", "name": "apply_patch",
                                      "call_id": call, "input": patch})  # fmt: skip
                put("response_item", {"type": "custom_tool_call_output", "call_id": call,
                                      "output": "Success."})  # fmt: skip
    return [json.dumps(line) for line in lines]
