"""What a server says about how to connect: every agent names its project, none its token."""

import json
import subprocess
import sys
import tomllib

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import environment

from reasonbank.surfaces.connecting import WORKSPACE, snippets

ADDRESS = "http://127.0.0.1:8321"
# How each of them writes a variable, as it was seen on the wire.
HEADERS = {
    "Gemini CLI": ("mcpServers", "$PWD", "Bearer $REASONBANK_TOKEN"),
    "Qwen Code": ("mcpServers", "$PWD", "Bearer $REASONBANK_TOKEN"),
    "Copilot CLI": ("mcpServers", "${PWD}", "Bearer ${REASONBANK_TOKEN}"),
    "opencode": ("mcp", "{env:PWD}", "Bearer {env:REASONBANK_TOKEN}"),
    "Cursor": ("mcpServers", "${workspaceFolder}", "Bearer ${env:REASONBANK_TOKEN}"),
}


def told(locked):
    return {snippet.agent: snippet.text for snippet in snippets(ADDRESS, locked=locked)}


@requirement("MCP-5")
@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("agent", HEADERS)
def test_an_agent_with_headers_sends_its_project_and_its_token(agent, locked):
    section, project, token = HEADERS[agent]
    entry = json.loads(told(locked)[agent])[section]["reasonbank"]
    assert entry["headers"] == ({"Authorization": token} if locked else {}) | {WORKSPACE: project}
    assert f"{ADDRESS}/mcp" in entry.values()


@requirement("MCP-5")
@pytest.mark.parametrize("locked", [True, False])
def test_codex_reads_both_from_its_environment(locked):
    entry = tomllib.loads(told(locked)["Codex"])["mcp_servers"]["reasonbank"]
    assert entry["env_http_headers"] == {WORKSPACE: "PWD"}
    assert entry.get("bearer_token_env_var") == ("REASONBANK_TOKEN" if locked else None)
    assert entry["url"] == f"{ADDRESS}/mcp"


def test_the_json_api_is_asked_from_a_project_too():
    assert f'-H "{WORKSPACE}: $PWD"' in told(True)["Anything else"]


def test_a_terminal_ends_with_the_address_of_the_page(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "serve", "--port", "0"],
        env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith("Control-C"):
            lines.append(server.stdout.readline())
            assert lines[-1], "".join(lines)
        server.terminate()
    assert "#code=" in lines[-3]
    assert any("serves at" in line for line in lines[:-10])
