"""An error names, to an agent, the tool that helps; never a command that it could not call."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from mcp import MCPError
from tests.requirement import requirement
from tests.surfaces.mcp_agent import NOBODY, connected

import reasonbank
from reasonbank.surfaces.cli.shell import main
from reasonbank.surfaces.mcp.memory_tools import TOOLS
from reasonbank.surfaces.mcp.words import TOOL_FOR, for_agents

SOURCE = Path(reasonbank.__file__).parent
SPAN = re.compile(r"`(reasonbank [a-z][^`]*)`")
# Where a shell is told what to type next, nobody else reads along.
OF_THE_SHELL = ("surfaces/cli", "surfaces/show", "surfaces/http", "surfaces/connecting.py")


def told_below_the_surfaces() -> Iterator[str]:
    """Every text in the source, docstrings aside, that names a command in backquotes."""
    for file in SOURCE.rglob("*.py"):
        if str(file.relative_to(SOURCE)).startswith(OF_THE_SHELL):
            continue
        tree = ast.parse(file.read_text())
        docs = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body and isinstance(node.body[0], ast.Expr)
        }  # fmt: skip
        for node in ast.walk(tree):
            if node in docs:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
                text = "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if SPAN.search(text):
                yield text


MESSAGES = sorted(set(told_below_the_surfaces()))


def command_of(words: str) -> click.Command:
    found: click.Command = main
    for word in words.split()[1:]:
        if not isinstance(found, click.Group):
            break
        given = found.get_command(click.Context(found), word)
        assert given is not None, words
        found = given
    return found


@requirement("MCP-4")
@pytest.mark.parametrize("message", MESSAGES)
def test_every_error_that_names_a_command_names_a_tool_to_an_agent(message):
    told = for_agents(message)
    for words in SPAN.findall(message):
        assert command_of(words)
        _, first, *rest = words.split()
        tool = TOOL_FOR.get(" ".join((first, *rest[:1]))) or TOOL_FOR.get(first)
        if tool is None:
            assert f"`{words}` (for your user to run)" in told
        else:
            assert f"`{tool}`" in told and f"`{words}`" not in told


def test_there_are_such_errors_and_every_tool_that_they_name_exists():
    assert len(MESSAGES) > 8
    assert set(TOOL_FOR.values()) <= set(TOOLS)
    for words in TOOL_FOR:
        assert command_of(f"reasonbank {words}")


@requirement("MCP-4")
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_reads_the_name_of_a_tool(plain_bank, anyio_backend):
    async with connected(plain_bank) as agent:
        said = await agent.refused("memory_get", memory_id=NOBODY)
        assert "`memory_search` shows" in said
        said = await agent.refused("distil_submit", ticket="mine", answer={"memories": []})
        assert "'mine' is not a UUID; give the whole id, as you were told it" in said
        said = await agent.refused("workspace", action="delete", target="nowhere")
        assert "reasonbank" not in said
        with pytest.raises(MCPError, match="`memory_search` shows"):
            await agent.client.read_resource(f"memory://{NOBODY}")
