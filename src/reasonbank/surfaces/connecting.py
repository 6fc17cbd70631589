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


WORKSPACE = "X-ReasonBank-Workspace"
"""Where they say which project they work in: the server cannot see it from where it runs."""


def snippets(address: str, *, locked: bool) -> list[Snippet]:
    """``address`` is where the server is, e.g. http://127.0.0.1:8321.

    The token is named, never written out: each agent reads it from the environment. So is the
    project: PWD is the directory that the agent was started in. Claude Code names its project
    when it is asked.
    """
    url = f"{address}/mcp"
    # In single quotes: the agent looks the variable up when it starts, not the shell now.
    header = f" --header 'Authorization: Bearer ${{{VARIABLE}}}'" if locked else ""
    curl = f' -H "Authorization: Bearer ${VARIABLE}"' if locked else ""

    def sent(form: str, project: str = "") -> dict[str, str]:
        """``form`` is how the agent writes a variable."""
        token = {"Authorization": f"Bearer {form.format(VARIABLE)}"} if locked else {}
        return token | {WORKSPACE: project or form.format("PWD")}

    def servers(**entry: object) -> str:
        return _json(mcpServers={"reasonbank": entry})

    codex = f'[mcp_servers.reasonbank]\nurl = "{url}"'
    if locked:
        codex += f'\nbearer_token_env_var = "{VARIABLE}"'
    codex += f'\nenv_http_headers = {{ "{WORKSPACE}" = "PWD" }}'
    remote = {"type": "remote", "url": url, "enabled": True, "headers": sent("{{env:{}}}")}
    return [
        Snippet(
            agent="Claude Code",
            where="in a terminal",
            text=f"claude mcp add --transport http reasonbank {url}{header}",
        ),
        Snippet(agent="Codex", where="~/.codex/config.toml", text=codex),
        Snippet(
            agent="Gemini CLI",
            where="~/.gemini/settings.json",
            text=servers(httpUrl=url, headers=sent("${}")),
        ),
        Snippet(
            agent="Qwen Code",
            where="~/.qwen/settings.json",
            text=servers(httpUrl=url, headers=sent("${}")),
        ),
        Snippet(
            agent="Copilot CLI",
            where="~/.copilot/mcp-config.json",
            text=servers(type="http", url=url, headers=sent("${{{}}}"), tools=["*"]),
        ),
        Snippet(
            agent="opencode",
            where="~/.config/opencode/opencode.json",
            text=_json(mcp={"reasonbank": remote}),
        ),
        Snippet(
            agent="Cursor",
            where=".cursor/mcp.json in the project",
            text=servers(url=url, headers=sent("${{env:{}}}", "${workspaceFolder}")),
        ),
        Snippet(
            agent="Anything else",
            where="the JSON API",
            text=f"curl{curl} -H 'Content-Type: application/json' \\\n"
            f'  -H "{WORKSPACE}: $PWD" \\\n'
            f'  -d \'{{"query": "flaky test"}}\' {address}/api/v1/search',
        ),
    ]


def _json(**settings: object) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False)
