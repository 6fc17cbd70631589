"""Nothing is learned from ReasonBank's own words, in whatever form an agent wrote them down."""

from __future__ import annotations

import html

import pytest

from reasonbank.learn.echo import is_own, shown_in, without_echo
from reasonbank.search.inject import HEADING
from reasonbank.testing import a_memory, a_warning

MEMORY = a_memory(id="01a1e333-208e-76f5-88d0-467ee0781da0")


def injected(heading=HEADING):
    return f"{heading}\n{MEMORY.format_for_prompt()}\n{a_warning().format_for_prompt()}"


@pytest.mark.parametrize("told", [
    "{}", "<system-reminder>\nhook additional context: {}\n</system-reminder>",
    "<system_reminder>\n{}\n</system_reminder>", "<hook_context>{}</hook_context>",
    "<qwen:user-prompt-submit-context>\n{}\n</qwen:user-prompt-submit-context>",
    "<reasonbank>{}</reasonbank>",
])  # fmt: skip
@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_what_was_injected_is_gone_and_what_was_said_stays(told, escaped):
    text = html.escape(injected(), quote=False) if escaped else injected()
    said = f"Make the check pass.\n{told.format(text)}\nThanks."
    left = without_echo(said)
    assert left.split() == ["Make", "the", "check", "pass.", "Thanks."]
    assert shown_in(said)[0] == MEMORY.id


def test_what_others_say_of_reasonbank_stays():
    said = "ReasonBank is slow here. This failed before, as ReasonBank recalls nothing."
    assert without_echo(said) == said


def test_what_hooks_say_is_known():
    respond = pytest.importorskip("reasonbank.surfaces.hooks.respond")
    assert without_echo(str(respond.QUESTION)).strip() == ""
    for heading in (respond.BEFORE, respond.AFTER):
        assert without_echo(injected(heading)).strip() == ""


@pytest.mark.parametrize("tool", [
    "mcp__reasonbank__memory_search", "reasonbank-memory_record", "reasonbank_memory_record",
    "mcp_reasonbank_memory_outcome", "reasonbank",
])  # fmt: skip
def test_each_agents_name_of_our_tools_is_ours(tool):
    assert is_own(tool=tool)
    assert not is_own(tool=tool.replace("reasonbank", "seasonbank"))
