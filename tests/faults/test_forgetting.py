"""What was forgotten is in no file any more: not in the log, full-text, index or a trace."""

from __future__ import annotations

import io
import secrets
from pathlib import Path

import pytest
from fault_tools import a_memory, child, exported, imported, open_bank, where_found
from tests.requirement import requirement

from reasonbank.bank import Bank
from reasonbank.embed.hashed import Hashed
from reasonbank.errors import Forgotten
from reasonbank.model import ErrorContext, Outcome, Scope, Step, Trace
from reasonbank.settings import Settings
from reasonbank.store.vectors import embedding_text


@pytest.fixture
def marker() -> str:
    # Letters that no English word begins with: full-text shares prefixes between words.
    return "zqxj" + "".join(chr(ord("a") + byte % 26) for byte in secrets.token_bytes(12))


def marked(bank: Bank, marker: str) -> str:
    """A memory that says the marker everywhere it can, has a past, and was found and rated."""
    error = ErrorContext(
        error_type=f"{marker}type",
        failure_pattern=f"{marker}pattern",
        corrective_guidance=f"{marker}guidance",
        error_message=f"{marker}message",
        stack_trace=f"{marker}stack",
    )
    memory = bank.record(
        a_memory(
            f"{marker}title",
            description=f"About {marker}description and more",
            content=f"First line {marker}content\nand a second line {marker}second",
            tags=(f"{marker}tag",),
            domain=f"{marker}domain",
            error_context=error,
        )
    )
    bank.update(memory.id, content=f"Now it says {marker}changed")
    bank.search(f"{marker}title")
    bank.feedback(memory.id, helpful=True, comment=f"{marker}comment")
    bank.archive(memory.id, reason=f"{marker}reason")
    bank.restore(memory.id)
    return memory.id


def fill(bank: Bank, count: int = 150) -> None:
    """Enough neighbours that an index file is written."""
    for number in range(count):
        bank.record(a_memory(f"Neighbour {number}"))


@requirement("MEM-6")
def test_a_forgotten_memory_is_in_no_file(path: Path, marker: str) -> None:
    with open_bank(path) as bank:
        fill(bank)
        id = marked(bank, marker)
        bank.search("neighbour")
    assert where_found(marker, path), "the test would see nothing"
    with open_bank(path) as bank:
        bank.forget(id)
        assert where_found(marker, path) == [], "still there while the bank is open"
        with pytest.raises(Forgotten):
            bank.get(id)
        assert not bank.search(f"{marker}title")
        assert marker not in exported(bank)
    assert where_found(marker, path) == []


def forget_elsewhere(path: Path, id: str) -> None:
    with open_bank(path) as bank:
        bank.forget(id)


@requirement("MEM-6")
def test_another_process_forgets_for_all(path: Path, marker: str) -> None:
    with open_bank(path) as bank:
        fill(bank)
        id = marked(bank, marker)
        bank.search(f"{marker}title")
        with child(forget_elsewhere, path, id) as process:
            process.join(60)
            assert process.exitcode == 0
        assert where_found(marker, path) == []
        assert not [hit for hit in bank.search(f"{marker}title") if hit.memory.id == id]
    assert where_found(marker, path) == []


def test_the_vector_of_a_forgotten_memory_is_in_no_file(path: Path, marker: str) -> None:
    """Vectors count as plain text: they can be turned back into words."""
    with open_bank(path) as bank:
        fill(bank)
        memory = bank.record(a_memory(f"{marker} alpha beta gamma"))
        vector = Hashed().embed([embedding_text(memory)])[0]
        bank.reindex()
    index = next(path.parent.glob("*.index"))
    halves = vector.astype("float16")
    needles = [halves.tobytes(), halves.astype("float32").tobytes()]
    assert needles[0] in path.read_bytes() and needles[1] in index.read_bytes()
    with open_bank(path) as bank:
        bank.forget(memory.id)
    for file in path.parent.iterdir():
        assert not [n for n in needles if n in file.read_bytes()], file.name


@requirement("MEM-6")
def test_a_trace_that_quoted_a_forgotten_memory_loses_the_quotation(
    bank: Bank, path: Path, marker: str
) -> None:
    memory = bank.record(
        a_memory(f"{marker}title here", content=f"Line one {marker}one\nLine two {marker}two")
    )
    quoted = bank.get(memory.id).format_for_prompt()
    bank.update(memory.id, content=f"Later it says {marker}later")
    trace = bank.store_trace(
        Trace(
            task=f"Do as {marker}title here says",
            outcome=Outcome.SUCCESS,
            trajectory=(Step(iteration=1, action="think", content=quoted),),
            memories_used=(memory.id,),
            metadata={"notes": [f"Later it says {marker}later"]},
        )
    )
    bank.forget(memory.id)
    kept = bank.trace(trace.id)
    assert kept.task == "Do as [forgotten] says"
    assert kept.memories_used == (memory.id,)
    assert where_found(marker, path) == []


@pytest.mark.parametrize("title", ["task", "id", "content", "e", ",", "success", '"', "trace"])
def test_forgetting_a_short_title_leaves_a_trace_readable(bank: Bank, title: str) -> None:
    memory = bank.record(a_memory(title, description=title, content=title))
    trace = bank.store_trace(
        Trace(
            task="The task was to see",
            outcome=Outcome.SUCCESS,
            trajectory=(Step(iteration=1, action="act", content="content, and more"),),
            memories_used=(memory.id,),
            metadata={"task": "one"},
        )
    )
    bank.forget(memory.id)
    kept = bank.trace(trace.id)
    assert kept.outcome is Outcome.SUCCESS
    assert kept.metadata == {"task": "one"}
    assert kept.trajectory[0].action == "act"


@requirement("WSP-4")
def test_a_deleted_workspace_is_in_no_file(path: Path, marker: str) -> None:
    with open_bank(path) as bank:
        fill(bank)
        secret = bank.within(f"/home/{marker}path")
        id = marked(secret, marker)
        secret.record(a_memory(f"{marker}team", scope=Scope.TEAM))
        secret.store_trace(Trace(task=f"{marker}task", outcome=Outcome.MIXED))
        other = bank.record(a_memory("A neighbour of the deleted"))
        secret.search(f"{marker}team", session=f"{marker}session")
        bank.name_workspace(secret.view.workspace, f"{marker}name")
        assert bank.delete_workspace(secret.view.workspace, confirm=True) == 2
        assert where_found(marker, path) == []
        with pytest.raises(Forgotten):
            secret.get(id)
        assert bank.get(other.id)
        assert secret.traces() == []
    assert where_found(marker, path) == []
    with open_bank(path) as bank:
        assert bank.store.ledger.check() == []


@requirement("MEM-11")
def test_a_purged_trace_is_in_no_file_and_what_was_learned_stays(
    bank: Bank, path: Path, marker: str
) -> None:
    memory = bank.record(a_memory())
    bank.store_trace(
        Trace(task=f"{marker}task", outcome=Outcome.SUCCESS, memories_learned=(memory.id,))
    )
    assert bank.purge_traces(older_than_days=0) == 1
    assert bank.traces() == []
    assert bank.get(memory.id) == memory
    assert where_found(marker, path) == []


def test_importing_a_forgetting_cleans_the_files_here_too(
    memory_disk: Path, path: Path, marker: str
) -> None:
    with open_bank(path) as here, open_bank(memory_disk / "other" / "bank.db") as there:
        fill(here)
        id = marked(here, marker)
        imported(there, exported(here))
        here.search(f"{marker}title")
        there.forget(id)
        imported(here, exported(there))
        with pytest.raises(Forgotten):
            here.get(id)
        assert where_found(marker, path) == []
    assert where_found(marker, path) == []


def test_an_export_in_markdown_has_nothing_that_was_forgotten(bank: Bank, marker: str) -> None:
    bank.forget(marked(bank, marker))
    file = io.StringIO()
    bank.export(file, format="markdown")
    assert marker not in file.getvalue()


def test_forgetting_reaches_the_index_of_a_model_that_is_not_in_use(
    path: Path, marker: str
) -> None:
    with open_bank(path) as bank:
        fill(bank)
        memory = bank.record(a_memory(f"{marker} alpha beta gamma"))
        bank.reindex()
    vector = Hashed().embed([embedding_text(memory)])[0].astype("float16").astype("float32")
    index = next(path.parent.glob("*.index"))
    assert vector.tobytes() in index.read_bytes()
    with open_bank(path, settings=Settings()) as bank:
        bank.forget(memory.id)
    assert not index.exists() or vector.tobytes() not in index.read_bytes()
