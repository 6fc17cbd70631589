"""Ids that people shorten: any part will do that only one thing in sight has."""

import io

import pytest
from tests.requirement import requirement

from reasonbank import InvalidInput, Memory, NotFound, Trace
from reasonbank.errors import Forgotten
from reasonbank.surfaces import operations
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp import memory_tools


def lesson(title, **more):
    return Memory(title=title, description="When it fails", content=f"Do {title}.",
                  outcome="success", **more)  # fmt: skip


@requirement("CLI-5")
def test_the_beginning_the_end_and_the_middle_of_an_id_will_do(plain_bank):
    memory = plain_bank.record(lesson("one"))
    digits = memory.id.replace("-", "")
    for part in (digits[:8], digits[-8:], digits[10:24], memory.id[:9], memory.id[-12:].upper(),
                 memory.id[:-1], f" {memory.id[-8:]} "):  # fmt: skip
        assert plain_bank.get(part).id == memory.id, part


def test_every_operation_takes_a_part(plain_bank):
    one, other = (plain_bank.record(lesson(title)) for title in ("one", "other"))
    part, second = one.id[-8:], other.id[-8:]
    assert plain_bank.update(part, title="first").id == one.id
    assert plain_bank.feedback(part, helpful=True).id == one.id
    assert plain_bank.outcome(part, succeeded=True).id == one.id
    assert plain_bank.stability(part, kept=True).id == one.id
    link = plain_bank.link(part, second, type="similar")
    assert (link.source, link.target) == (one.id, other.id)
    assert plain_bank.links(second) == plain_bank.links(other.id) != []
    plain_bank.unlink(part, second, type="similar")
    assert plain_bank.links(part) == []
    assert len(plain_bank.history(part)) == 2
    assert {e.memory_id for e in plain_bank.evidence(part)} == {one.id}
    assert plain_bank.genealogy(part).id == one.id
    assert plain_bank.undo(part).title == "one"
    assert plain_bank.archive(part).state == "archived"
    assert plain_bank.restore(part).state == "active"
    assert {c.subject for c in plain_bank.audit(memory=part)} == {one.id}
    plain_bank.forget(part)
    with pytest.raises(Forgotten, match=one.id):
        plain_bank.get(part)
    assert {c.subject for c in plain_bank.audit(memory=part)} == {one.id}
    assert plain_bank.get(second) == other


def test_traces_and_jobs_have_ids_too(plain_bank):
    job = plain_bank.distil(Trace(task="Upload a file"))
    assert plain_bank.trace(job.subject[-8:]).id == job.subject
    assert plain_bank.retry_job(job.id[:8]).id == job.id
    assert plain_bank.drop_job(job.id[-8:]).id == job.id
    with pytest.raises(NotFound, match="there is no trace with 00000000 in its id"):
        plain_bank.trace("00000000")


@requirement("CLI-5")
def test_what_fits_several_is_refused_and_lists_them(plain_bank):
    stored = [plain_bank.record(lesson(f"lesson {n}", id=f"019a1234-0000-7000-8000-{n:012}"))
              for n in range(12)]  # fmt: skip
    with pytest.raises(InvalidInput, match="is in several ids") as error:
        plain_bank.archive("019a1234")
    said = str(error.value)
    for memory in stored[:10]:
        assert f"{memory.id}  {memory.title}" in said
    assert "and more" in said
    assert all(plain_bank.get(memory.id).state == "active" for memory in stored)
    assert plain_bank.get(stored[3].id[-8:]) == stored[3]


@requirement("CLI-5")
def test_a_part_finds_only_what_the_caller_may_see(plain_bank, tmp_path):
    ours = plain_bank.record(lesson("ours", id="019a1234-0000-7000-8000-000000000001"))
    there = plain_bank.within(tmp_path / "elsewhere")
    theirs = there.record(lesson("theirs", id="019a1234-0000-7000-8000-000000000002"))
    assert plain_bank.get("019a1234") == ours
    assert there.get("019a1234") == theirs
    with pytest.raises(NotFound) as error:
        plain_bank.get("00000002")
    assert "theirs" not in str(error.value)
    there.forget(theirs.id)
    with pytest.raises(NotFound):
        plain_bank.get("00000002")


@pytest.mark.parametrize("value", ["3f9a", "", "zzzzzzzz", "1234567", "--------", "a" * 33, 5])
def test_what_is_too_short_or_no_id_says_what_is(plain_bank, value):
    with pytest.raises(InvalidInput, match="is not a UUID, nor 8 or more digits of one"):
        plain_bank.get(value)


def test_a_stored_memory_still_needs_a_whole_id(plain_bank):
    with pytest.raises(InvalidInput, match="id"):
        plain_bank.record(lesson("one", id="019a1234"))
    line = (
        '{"id": "019a1234", "title": "t", "description": "d", "content": "c", "outcome": "success"}'
    )
    with pytest.raises(InvalidInput, match="id"):
        plain_bank.import_(io.StringIO(line))


@requirement("CLI-5")
def test_http_and_mcp_take_a_part_and_answer_with_the_whole(plain_bank):
    one, other = (plain_bank.record(lesson(title)) for title in ("one", "other"))
    plain_bank.link(one.id, other.id, type="similar")
    call = Call(root=plain_bank, surface="http")
    removed = operations.unlink(call, one.id[-8:], other.id[-8:], type="similar")
    assert (removed.source, removed.target) == (one.id, other.id)
    assert plain_bank.links(one.id) == []
    assert memory_tools.memory_history(plain_bank, one.id[-8:]).id == one.id
    forgotten = operations.forget(call, one.id[-8:], confirm=True)
    assert forgotten.id == one.id
