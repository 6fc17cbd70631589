"""Writes transcripts as the agents do, from a short notation."""

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


def gemini_cli(name, steps):
    """The lines of a Gemini CLI chat."""
    lines = [{"sessionId": _id(name, 0), "projectHash": "0" * 64, "kind": "main",
              "startTime": "2026-03-01T12:00:00Z", "lastUpdated": "2026-03-01T12:00:00Z"},
             {"$set": {"messages": [{"id": "0", "type": "user", "content": [{"text":
              "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n"
              "  - /home/me/app\n</session_context>"}]}]}}]  # fmt: skip

    def put(kind, content, **more):
        lines.append({"id": _id(name, len(lines)), "timestamp": "2026-03-01T12:00:00.5Z",
                      "type": kind, "content": content, **more})  # fmt: skip

    def tool(tool_name, args, output, status="success", **more):
        id = f"{tool_name}_{len(lines)}"
        told = {"functionResponse": {"id": id, "name": tool_name, "response": {"output": output}}}
        call = {"id": id, "name": tool_name, "args": args, "status": status, "result": [told]}
        put("gemini", "", toolCalls=[call | more])
        lines.append(lines[-1])
        put("user", [told])

    for step in steps:
        match step:
            case U(text):
                put("user", [{"text": text}])
            case A(text):
                put("gemini", text, tokens={"total": 15}, model="gemini-2.5-flash")
            case C(command, code, output):
                status = "cancelled" if code is None else "success"
                ended = f"\nExit Code: {code}" if code else ""
                said = f"<untrusted_context>\nOutput: {output}{ended}\nProcess Group PGID: 7\n"
                tool("run_shell_command", {"command": command}, f"{said}</untrusted_context>",
                     status)  # fmt: skip
            case E(path, change):
                args = {"file_path": f"/home/me/app/{path}", "content": change}
                tool("write_file", args, "Successfully wrote it.", resultDisplay={"fileDiff": "+"})
    return [json.dumps(line) for line in lines]


def qwen_code(name, steps):
    """The lines of a Qwen Code chat."""
    lines = []

    def put(kind, parts, **more):
        lines.append({"uuid": _id(name, len(lines) + 1), "parentUuid": None, "type": kind,
                      "sessionId": _id(name, 0), "cwd": "/home/me/app", "version": "0.24.4",
                      "timestamp": "2026-03-01T12:00:00.5Z", "gitBranch": "main",
                      "message": {"role": kind, "parts": parts}, **more})  # fmt: skip

    def tool(tool_name, args, output, display, status):
        id = f"call_{len(lines)}"
        put("assistant", [{"functionCall": {"id": id, "name": tool_name, "args": args}}])
        told = {"functionResponse": {"id": id, "name": tool_name, "response": {"output": output}}}
        put("tool_result", [told],
            toolCallResult={"callId": id, "status": status, "resultDisplay": display})  # fmt: skip

    for step in steps:
        match step:
            case U(text):
                put("user", [{"text": text}], provenance="real_user")
            case A(text):
                put("assistant", [{"text": "hm", "thought": True}, {"text": text}], model="qwen")
            case C(command, code, output):
                said = f"Command: {command}\nDirectory: (root)\nOutput: {output}\nExit Code: {code}"
                shell = {"type": "shell_result", "exitCode": code, "output": output}
                display = shell if len(lines) % 2 and code is not None else output
                status = {None: "cancelled", 0: "success"}.get(code, "error")
                tool("run_shell_command", {"command": command}, said, display, status)
            case E(path, change):
                args = {"file_path": f"/home/me/app/{path}", "old_string": "x",
                        "new_string": change}  # fmt: skip
                tool("edit", args, "Done.", {"fileDiff": "+"}, "success")
    return [json.dumps(line) for line in lines]


def copilot_cli(name, steps):
    """The lines of Copilot CLI's events."""
    lines = []

    def put(kind, **data):
        lines.append({"type": kind, "data": data, "id": _id(name, len(lines) + 1),
                      "timestamp": "2026-03-01T12:00:00.5Z", "parentId": None})  # fmt: skip

    def tool(tool_name, arguments, **result):
        id = f"call_{len(lines)}"
        put("assistant.message", content="", toolRequests=[
            {"toolCallId": id, "name": tool_name, "arguments": arguments}])  # fmt: skip
        put("tool.execution_start", toolCallId=id, toolName=tool_name, arguments=arguments)
        put("tool.execution_complete", toolCallId=id, **result)

    put("session.start", sessionId=_id(name, 0), context={"cwd": "/home/me/app"})
    put("system.message", role="system", content="You are Copilot.")
    for step in steps:
        match step:
            case U(text):
                put("user.message", content=text, transformedContent=f"<now/>\n{text}")
            case A(text):
                put("assistant.message", content=text, toolRequests=[], model="gpt-5")
            case C(command, None, output):
                error = {"message": "The user rejected this tool call.", "code": "rejected"}
                tool("bash", {"command": command}, success=False, error=error)
            case C(command, code, output):
                said = f"{output}\n<shellId: 0 completed with exit code {code}>"
                tool("bash", {"command": command}, success=True, result={"content": said})
            case E(path, change):
                tool("create", {"path": f"/home/me/app/{path}", "file_text": change}, success=True,
                     result={"content": "Created"})  # fmt: skip
    return [json.dumps(line) for line in lines]
