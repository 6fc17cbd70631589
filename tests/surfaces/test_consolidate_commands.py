"""The commands consolidate, promote, batches and undo, and the tool memory_consolidate."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from tests.conftest import HASHED
from tests.requirement import requirement
from tests.surfaces.mcp_agent import connected
from tests.surfaces.test_cli import Shell

from reasonbank.errors import Refused
from reasonbank.ledger.port import Filter
from reasonbank.model import Source
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.consolidate_tools import memory_consolidate
from reasonbank.testing.builders import a_memory

NOBODY = "01a1dd00-0000-7000-8000-000000000000"
WORDS = "alpha beta gamma delta epsilon"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path)


@pytest.fixture
def twins(shell):
    def record(extra):
        return shell.record("--title", f"Lesson {WORDS}", "--description", WORDS,
                            "--content", f"{WORDS}{extra}", "--outcome", "success")  # fmt: skip

    return [record(""), record(" again")]


@requirement("CSL-5")
def test_a_dry_run_prints_a_plan_that_people_can_read(shell, twins):
    shown = shell.text("consolidate", "--dry-run")
    assert "Plan" in shown and all(id in shown for id in twins)
    assert "2 memories would become 1" in shown
    assert {m["state"] for m in shell.json("list", "--state", "all")} == {"active"}


@requirement("CSL-6")
def test_consolidate_merges_and_undo_takes_the_batch_back(shell, twins):
    result = shell.json("consolidate")
    assert result["archived_memories"] == twins or set(result["archived_memories"]) == set(twins)
    [merged] = result["created_memories"]
    assert [m["id"] for m in shell.json("list")] == [merged]
    assert result["batch"] in shell.text("batches")
    [batch] = shell.json("batches")
    assert datetime.fromisoformat(batch["at"]).tzinfo is not None
    assert "Restored 2, archived 1" in shell.text("undo", result["batch"])
    assert {m["id"] for m in shell.json("list")} == set(twins)
    assert "1 of 1" in shell.text("batches")


def test_the_window_the_limit_and_the_threshold_can_be_chosen(shell, twins):
    assert shell.json("consolidate", "--threshold", "0.999")["created_memories"] == []
    again = shell.json("consolidate")
    assert again["created_memories"] == [] and "force" in again["message"]
    assert shell.json("consolidate", "--force", "--max-clusters", "1")["created_memories"]
    assert "threshold" in shell("consolidate", "--threshold", "2", code=2).stderr


def test_undo_of_what_is_neither_memory_nor_batch_is_not_found(shell, twins):
    assert "batch" in shell("undo", NOBODY, code=3).stderr


def test_show_puts_what_contradicts_beside_it(shell, twins):
    shell("link", *twins, "--type", "contradicts")
    assert "Contradicts: Lesson" in shell.text("show", twins[0])
    assert [m["id"] for m in shell.json("show", twins[0])["contradicts"]] == [twins[1]]
    assert f"Contradicts: {twins[1]}" in shell.text("search", WORDS)


def test_promote_says_what_recurs(shell, twins, tmp_path):
    assert "Nothing recurs" in shell.text("promote", "--dry-run")
    other = tmp_path.parent / f"{tmp_path.name}-other"
    shell("record", "--title", f"Lesson {WORDS}", "--description", WORDS, "--content", WORDS,
          "--outcome", "success", "--workspace", str(other))  # fmt: skip
    assert "one hand wrote it" in shell.text("promote")
    assert "--accept ID" in shell.text("promote")
    assert shell.json("promote", "--reject", twins[0])["promoted"] == []
    proposals = {each["id"]: each for each in shell.json("promote", "--dry-run")["proposals"]}
    assert not proposals.get(twins[0], {"acceptable": False})["acceptable"]


@requirement("GEN-2")
def test_a_genealogy_can_be_drawn_with_mermaid(shell, twins):
    title = 'A "quoted" <b>title</b>; end'
    child = shell.record("--title", title, "--description", "d", "--content", "c",
                         "--outcome", "success", "--parent", twins[0])  # fmt: skip
    drawn = shell.text("genealogy", twins[0], "--mermaid").splitlines()
    assert drawn[0] == "graph TD"
    one, other = (f"m{id.replace('-', '')}" for id in (twins[0], child))
    assert f"  {one} --> {other}" in drawn
    assert f'  {other}["A #quot;quoted#quot; #lt;b#gt;title#lt;/b#gt;; end"]' in drawn


@pytest.fixture
def anyio_backend():
    return "asyncio"


@requirement("CSL-6")
@pytest.mark.anyio
async def test_the_tool_answers_with_the_names_of_the_seed_and_tells_of_progress(open_bank):
    bank = open_bank(settings=HASHED)
    for extra in ("", " again"):
        bank.record(a_memory(title=f"Lesson {WORDS}", description=WORDS, content=WORDS + extra))
    told = []

    async def heard(done, total, message):
        told.append((done, total))

    async with connected(bank, roots=False) as agent:
        planned = await agent("memory_consolidate", dry_run=True, max_clusters=0)
        assert planned["dry_run"] and len(planned["clusters"][0]["members"]) == 2
        answer = await agent.client.call_tool(
            "memory_consolidate", {"project_id": bank.view.workspace}, progress_callback=heard
        )
    done = answer.structured_content
    assert done["created_memories"] == planned["created_memories"]
    assert done.keys() >= {"created_memories", "archived_memories", "skipped_count",
                           "total_processed", "duration_seconds"}  # fmt: skip
    assert told == [(1, 1)]


def test_a_cancelled_call_ends_between_two_merges(open_bank, monkeypatch):
    monkeypatch.setattr("reasonbank.tidy.consolidate.AT_ONCE", 1)
    bank = open_bank(settings=HASHED)
    for name in ("one", "two", "three"):
        for extra in ("", " again"):
            words = " ".join(f"{name}{n}" for n in range(12))
            bank.record(a_memory(title=words, description=words, content=words + extra))

    def cancelled(done, total):
        raise asyncio.CancelledError

    with pytest.raises(Refused, match="cancelled"):
        memory_consolidate(Call(root=bank, surface="mcp", progress=cancelled))
    assert len(bank.memories(Filter(sources=(Source.CONSOLIDATED,)))) == 1
    assert len(memory_consolidate(Call(root=bank, surface="mcp")).created) == 2
