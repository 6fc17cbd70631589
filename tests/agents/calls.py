"""What a scripted model does, whichever agent it drives: `shell`, `write`, `read`, `memory`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Call:
    """``forms`` are the input of the call by the name of the tool, in the order of choice."""

    forms: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    say: str
    calls: Sequence[Call] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A call in an agent's own names; ``space`` is Codex' name for a server."""

    name: str
    input: Any
    space: str = ""
    id: str = field(default_factory=lambda: f"call_{uuid4().hex[:16]}")


def shell(command: str) -> Call:
    spoken = {"command": command, "description": "Run it"}
    return Call(
        {
            "Bash": spoken,
            "bash": spoken,
            "run_shell_command": spoken | {"is_background": False},
            "exec_command": {"cmd": command},
            "shell_command": {"command": command},
            "shell": {"command": ["bash", "-lc", command]},
        }
    )


def write(path: str, content: str) -> Call:
    """``path`` is absolute."""
    patch = "".join(f"+{line}\n" for line in content.splitlines())
    return Call(
        {
            "Write": {"file_path": path, "content": content},
            "write": {"filePath": path, "content": content},
            "write_file": {"file_path": path, "content": content},
            "create": {"path": path, "file_text": content},
            "apply_patch": f"*** Begin Patch\n*** Add File: {path}\n{patch}*** End Patch",
        }
    )


def memory(tool: str, **given: Any) -> Call:
    """One of ReasonBank's tools; @ID@ is the last id of a memory that the model was shown."""
    return Call({f"memory_{tool}": given})


Offered = Sequence[tuple[str, str]]
"""Each tool's space and name."""


def found(call: Call, offered: Offered, api: str, body: Mapping[str, Any]) -> Found:
    for wanted, given in call.forms.items():
        for space, name in offered:
            if name == wanted or name.endswith(("_" + wanted, "-" + wanted)):
                return Found(name, _filled(given, body), space)
    wanted, given = next(iter(call.forms.items()))
    given = _filled(given, body)
    # Not among the tools: hidden behind a search for tools, yet callable by its name.
    match api:
        case "responses" if wanted.startswith("memory_"):
            return Found(wanted, given, "mcp__reasonbank")
        case "anthropic" if wanted.startswith("memory_"):
            return Found(f"mcp__reasonbank__{wanted}", given)
    return _bridged(Found(wanted, given), offered)


def _bridged(call: Found, offered: Offered) -> Found:
    """Qwen Code calls the tools of servers through one of its own."""
    if "memory_" not in call.name or ("", "tool_call") not in offered:
        return call
    name = call.name if call.name.startswith("mcp__") else f"mcp__reasonbank__{call.name}"
    return Found("tool_call", {"name": name, "arguments": call.input})


def _filled(given: Any, body: Mapping[str, Any]) -> Any:
    text = json.dumps(given)
    if "@ID@" not in text:
        return given
    ids = re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", str(body))
    return json.loads(text.replace("@ID@", ids[-1] if ids else "none"))
