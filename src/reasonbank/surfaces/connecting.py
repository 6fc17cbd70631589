"""How to connect an agent to a server: said at its start and on its page."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    agent: str
    where: str
    text: str


def snippets(address: str, *, locked: bool) -> list[Snippet]:
    """``address`` is where the server is, e.g. http://127.0.0.1:8321."""
    url = f"{address}/mcp"
    token = {"Authorization": "Bearer rbk_…"} if locked else {}
    header = ' --header "Authorization: Bearer rbk_…"' if locked else ""
    curl = ' -H "Authorization: Bearer rbk_…"' if locked else ""

    def servers(**entry: object) -> str:
        return json.dumps({"mcpServers": {"reasonbank": entry}}, indent=2, ensure_ascii=False)

    more = {"headers": token} if locked else {}
    codex = f'[mcp_servers.reasonbank]\nurl = "{url}"'
    if locked:
        codex += '\nbearer_token_env_var = "REASONBANK_TOKEN"'
    return [
        Snippet(
            agent="Claude Code",
            where="in a terminal",
            text=f"claude mcp add --transport http reasonbank {url}{header}",
        ),
        Snippet(agent="Codex", where="~/.codex/config.toml", text=codex),
        Snippet(agent="Cursor", where="~/.cursor/mcp.json", text=servers(url=url, **more)),
        Snippet(
            agent="Gemini CLI",
            where="~/.gemini/settings.json",
            text=servers(httpUrl=url, **more),
        ),
        Snippet(
            agent="Anything else",
            where="the JSON API",
            text=f"curl{curl} -H 'Content-Type: application/json' \\\n"
            f'  -d \'{{"query": "flaky test"}}\' {address}/api/v1/search',
        ),
    ]
