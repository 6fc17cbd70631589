"""How to connect an agent to a server: said at its start and on its page."""

from __future__ import annotations

import json
from dataclasses import dataclass

VARIABLE = "REASONBANK_TOKEN"
"""Where clients look for a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    agent: str
    where: str
    text: str


def snippets(address: str, *, locked: bool) -> list[Snippet]:
    """``address`` is where the server is, e.g. http://127.0.0.1:8321.

    The token is named, never written out: each agent reads it from the environment.
    """
    url = f"{address}/mcp"
    # In single quotes: the agent looks the variable up when it starts, not the shell now.
    header = f" --header 'Authorization: Bearer ${{{VARIABLE}}}'" if locked else ""
    curl = f' -H "Authorization: Bearer ${VARIABLE}"' if locked else ""

    def sent(form: str) -> dict[str, object]:
        return {"headers": {"Authorization": f"Bearer {form}"}} if locked else {}

    def servers(**entry: object) -> str:
        return json.dumps({"mcpServers": {"reasonbank": entry}}, indent=2, ensure_ascii=False)

    codex = f'[mcp_servers.reasonbank]\nurl = "{url}"'
    if locked:
        codex += f'\nbearer_token_env_var = "{VARIABLE}"'
    return [
        Snippet(
            agent="Claude Code",
            where="in a terminal",
            text=f"claude mcp add --transport http reasonbank {url}{header}",
        ),
        Snippet(agent="Codex", where="~/.codex/config.toml", text=codex),
        Snippet(
            agent="Cursor",
            where="~/.cursor/mcp.json",
            text=servers(url=url, **sent(f"${{env:{VARIABLE}}}")),
        ),
        Snippet(
            agent="Gemini CLI",
            where="~/.gemini/settings.json",
            text=servers(httpUrl=url, **sent(f"${VARIABLE}")),
        ),
        Snippet(
            agent="Anything else",
            where="the JSON API",
            text=f"curl{curl} -H 'Content-Type: application/json' \\\n"
            f'  -d \'{{"query": "flaky test"}}\' {address}/api/v1/search',
        ),
    ]
