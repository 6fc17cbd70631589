"""Writes what others find ReasonBank by, from the table of `reasonbank install`.

    python -m tools.integrations

`server.json` is for the MCP registry; `integrations/` has a plugin for Claude Code and an extension
for Gemini CLI. They start a released package with `uvx`, so nothing needs to be installed before.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from reasonbank.surfaces.install.wiring import (
    NAME,
    SERVES,
    Wish,
    claude_server,
    gemini_server,
    hook_groups,
)

ROOT = Path(__file__).parent.parent
REGISTRY = f"io.github.{NAME}/{NAME}"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
WORDS = "A memory that learns, for LLM agents: strategies from successes, warnings from failures."
WISH = Wish(launcher=("uvx", NAME))


def pages() -> dict[str, str]:
    """By path below the root."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    version, licence = project["version"], project["license"]
    about = {"name": NAME, "version": version, "description": WORDS}
    found: dict[str, Any] = {
        "server.json": _registry(version),
        ".claude-plugin/marketplace.json": {
            "name": NAME,
            "description": WORDS,
            "owner": {"name": project["authors"][0]["name"]},
            "plugins": [{"name": NAME, "source": "./integrations/claude-code",
                         "description": WORDS}],
        },
        "integrations/claude-code/.claude-plugin/plugin.json": {
            **about, "author": project["authors"][0], "license": licence,
            "keywords": project["keywords"],
        },
        "integrations/claude-code/.mcp.json": {"mcpServers": {NAME: claude_server(WISH)}},
        "integrations/claude-code/hooks/hooks.json": {"hooks": hook_groups("claude-code", WISH)},
        "integrations/gemini-cli/gemini-extension.json": {
            **about, "mcpServers": {NAME: _untrusted(gemini_server(WISH))},
        },
        "integrations/gemini-cli/hooks/hooks.json": {"hooks": hook_groups("gemini-cli", WISH)},
    }  # fmt: skip
    return {
        name: json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        for name, value in found.items()
    }


def _untrusted(server: dict[str, Any]) -> dict[str, Any]:
    """An extension cannot ask for trust: Gemini does not read it there."""
    return {key: value for key, value in server.items() if key != "trust"}


def _registry(version: str) -> dict[str, Any]:
    arguments = [{"type": "positional", "value": word} for word in SERVES]
    return {
        "$schema": SCHEMA,
        "name": REGISTRY,
        "title": "ReasonBank",
        "description": WORDS,
        "version": version,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": NAME,
                "version": version,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": arguments,
            }
        ],
    }


if __name__ == "__main__":
    for name, text in pages().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)
