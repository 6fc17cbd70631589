"""A bank that an earlier ReasonBank wrote opens, and says what it said then.

`tests/data/bank-0.1.0.db` was written, and asked, by the code of commit c4140ff; what that
answered is beside it. It has memories of all kinds (a warning, shared ones, archived, merged,
promoted, changed, taken back, forgotten), evidence, tasks and one without memory, links, traces,
jobs, two workspaces and tokens.
"""

import io
import json
import re
import shutil
from operator import itemgetter
from pathlib import Path

import pytest

from reasonbank import Bank, Filter, Forgotten, Scope, Settings, State
from reasonbank.access import TokenStore
from reasonbank.fields import plain
from reasonbank.search.text import tokens_in
from reasonbank.settings import Embed
from reasonbank.testing import a_memory

DATA = Path(__file__).parents[1] / "data"
WRITTEN = json.loads((DATA / "bank-0.1.0.json").read_text(encoding="utf-8"))
OF_THE_PROCESS = ("store", "process")
EACH = ("history", "evidence", "links", "contradicting", "genealogy")
KIN = ("memories", "search", "history", "genealogy")
ALL = Filter(scopes=tuple(Scope), states=tuple(State))
OF_THE_RANKING = (
    "similarity", "lexical_weight", "relevance", "composite", "score", "expected", "mmr_penalty",
    "fit", "weak",
)  # fmt: skip


@pytest.fixture
def old(tmp_path):
    file = tmp_path / "bank.db"
    shutil.copy(DATA / "bank-0.1.0.db", file)
    settings = Settings(embed=Embed(model="hashed"), author="anna")
    with Bank.open(f"sqlite:///{file}", workspace="/project", settings=settings,
                   clock=lambda: WRITTEN["at"]) as bank:  # fmt: skip
        yield bank


def exported(bank):
    lines = io.StringIO()
    bank.export(lines)
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def statistics(bank):
    numbers = plain(bank.statistics(everywhere=True))
    return {name: value for name, value in numbers.items() if name not in OF_THE_PROCESS}


ASKED = {
    "export": exported,
    "memories": lambda bank: bank.memories(ALL, limit=1000),
    "confidence": lambda bank: {m.id: bank.get(m.id).confidence for m in bank.memories(ALL)},
    "traces": Bank.traces,
    "jobs": Bank.jobs,
    "gaps": Bank.gaps,
    "workspaces": Bank.workspaces,
    "tokens": lambda bank: TokenStore(bank).list(),
    "audit": lambda bank: bank.audit(limit=1000, uses=True, everywhere=True),
    "report": Bank.report,
    "statistics": statistics,
    "batches": Bank.batches,
    "search": lambda bank: {q: bank.search(q, explain=True) for q in WRITTEN["said"]["search"]},
    "recommend": lambda bank: bank.recommend("an upload fails for a moment"),
    "inject": lambda bank: bank.inject("workers update the same table"),
} | {
    name: lambda bank, name=name: {m.id: getattr(bank, name)(m.id) for m in bank.memories(ALL)}
    for name in EACH
}  # fmt: skip


def test_all_that_was_asked_then_is_asked_now():
    assert set(ASKED) == set(WRITTEN["said"])


def as_json(value):
    """To six digits: the last bits of a cosine are the processor's."""
    return json.loads(json.dumps(plain(value)), parse_float=lambda digits: round(float(digits), 6))


FORECAST = ("tried", "worked", "failing", "untried")
TOLD = WRITTEN["said"]["confidence"]
GIVEN_WITH_OTHERS = {
    id
    for event in WRITTEN["said"]["export"]
    if event.get("event") == "memory.used" and event["payload"].get("session")
    for id in event["payload"]["ids"]
    if len(event["payload"]["ids"]) > 1
}


def before_uses_gave_way(said):
    """As confidence was while being found counted in full, whatever spoke against a memory."""
    if isinstance(said, dict):
        said = {name: before_uses_gave_way(value) for name, value in said.items()}
        if isinstance(trust := said.get("confidence"), float) and said.get("id") in TOLD:
            said["confidence"] = lowered(said["id"], trust)
        return said
    return [*map(before_uses_gave_way, said)] if isinstance(said, list) else said


def lowered(id, now):
    then = as_json(TOLD[id])
    # What was told of a task that had been given several counts by share since then.
    assert now <= then or id in GIVEN_WITH_OTHERS
    return then


def without_standing(said):
    """What a bank holds when it is upgraded counts as confirmed."""
    if isinstance(said, dict):
        assert said.get("standing", "confirmed") == "confirmed"
        return {k: without_standing(v) for k, v in said.items() if k != "standing"}
    return [without_standing(each) for each in said] if isinstance(said, list) else said


def as_then(what, said):
    """Without what is said today beyond that: who acted, and what was rolled up or redacted."""
    said = without_standing(said)
    if what == "confidence":
        return {id: lowered(id, now) for id, now in said.items()}
    if what in ("memories", "search", "contradicting", "recommend"):
        said = before_uses_gave_way(said)
    if what == "search":
        for reply in said.values():
            for hit in reply["memories"]:
                assert hit.pop("tried") >= hit.pop("worked")
                for name in FORECAST:
                    hit.pop(name, None)
    if what == "recommend":
        said["confidence"] = said["strategy"]["confidence"]
        assert 0 < said.pop("expected") <= 1
        assert (said.pop("tried"), said.pop("worked"), said.pop("failed")) == (30, 29, [])
    if what == "audit":
        new = ("principal", "batch")
        return [{k: v for k, v in entry.items() if k not in new} for entry in said]
    if what == "tokens":
        new = ("may", "max_tokens", "spent_tokens")
        return [{k: v for k, v in token.items() if k not in new} for token in said]
    if what == "workspaces":
        assert all(place.pop("peer") is None for place in said)
    if what == "inject":
        assert said["tokens"] == tokens_in(said["prompt"])
        said["prompt"] = re.sub(r' expected="[^>]*"', "", said["prompt"])
        said["tokens"] = tokens_in(said["prompt"])
        return {k: v for k, v in said.items() if k not in ("held_out", "warned")}
    if what == "statistics":
        del said["searches"]["weak"]
        assert set(said["by_standing"]) == {"confirmed"}
        new = ("growth", "by_standing", "influence")
        return {k: v for k, v in said.items() if k not in new}
    if what == "report":
        then = WRITTEN["said"]["report"]
        del said["repeated_mistakes"]["in_sessions"], said["not_counted"]
        del said["learned"], said["needed"], said["sentences"]
        assert said.pop("confidence_calibration")["count"] == said["calibration"]["count"]
        # Since then few tasks say less, and with that in another order: their numbers are the same.
        said["by_memory"].sort(
            key=lambda one: [o["id"] for o in then["by_memory"]].index(one["id"])
        )
        told = [(said["memory"], then["memory"])]
        told += zip(said["by_memory"], then["by_memory"], strict=True)
        for now, before in told:
            # The interval contains its estimate since then.
            assert now["low"] is None or now["low"] <= now["difference"] <= now["high"]
            now |= {end: as_json(before[end]) for end in ("difference", "low", "high")}
    if what == "evidence":
        known = WRITTEN["said"]["evidence"]
        for each in (each for told in said.values() for each in told):
            if each["kind"] == "usage":
                assert each.pop("rater"), "since then it is told who searched"
                each["rater"] = None
        return {id: [each for each in told if each in known[id]] for id, told in said.items()}
    if what == "export":
        new = ("counter", "principal", "batch", "prev", "digest", "salt")
        lines = [{k: v for k, v in line.items() if k not in new} for line in said]
        return [line for line in lines[1:-1] if line["payload"] is not None]
    return said


def unweighed(hit):
    kept = {k: v for k, v in hit.items() if k not in OF_THE_RANKING}
    # What is trusted for who wrote it counts tasks since then, and not each memory of a task.
    weighed = {*OF_THE_RANKING, "confidence"}
    return kept | {"parts": {k: v for k, v in hit["parts"].items() if k not in weighed}}


def as_any_ranking_has_it(what, said, others):
    """What a bank holds, not how search weighs it: that changes with the code that searches.

    The same memories are found, with the same cosines and words, and the best is the best. Which
    of the others there is room for is a matter of weighing: of those that ``others``, the answer
    of the other version, has too, the same is said.
    """
    if what == "recommend":
        told = re.sub(r"(relevance|confidence) \d\.\d\d", r"\1", said["reasoning"])
        return said | {"reasoning": re.sub(r"the forecast for this task is [\d.]+; ", "", told)}
    if what == "inject":
        said = {name: value for name, value in said.items() if name != "tokens"}
        heading, *blocks = blocks_of(said["prompt"])
        both = {*blocks} & {*blocks_of(others["prompt"])}
        both_ids = {*said["memories"]} & {*others["memories"]}
        assert len(both) == len(both_ids) > len(blocks) / 2
        return said | {
            "prompt": [heading, blocks[0], *sorted(both)],
            "memories": [said["memories"][0], *sorted(both_ids)],
        }
    if what != "search":
        return said
    return {asked: found_by_any(reply, others[asked]) for asked, reply in said.items()}


def blocks_of(prompt):
    heading, *blocks = re.sub(r'confidence="[\d.]+"', "", prompt).split("<memory ")
    return [heading, *(block.strip() for block in blocks)]


def found_by_any(reply, other):
    assert reply["tokens_used"] > 0  # Of prompts, which say more of each today.
    best, *rest = map(unweighed, reply["memories"])
    both = {hit["id"] for hit in reply["memories"]} & {hit["id"] for hit in other["memories"]}
    assert len(both) > len(reply["memories"]) / 2
    too_far = {each["id"] for each in reply["dropped"] if "threshold" in each["reason"]}
    known = {hit["id"] for hit in reply["memories"]} | {each["id"] for each in reply["dropped"]}
    return reply | {
        "tokens_used": None,
        "memories": [best, *sorted((h for h in rest if h["id"] in both), key=itemgetter("id"))],
        "dropped": [sorted(known), sorted(too_far)],
    }


@pytest.mark.parametrize("what", ASKED)
def test_a_bank_of_an_earlier_version_says_what_it_said(old, what):
    said = as_json(WRITTEN["said"][what])
    if what == "export":
        said = said[1:-1]
    # Since then only whoever looks after the whole bank is told of kin in other projects.
    whole = Bank(old.context.seen_by(whole=True)) if what in KIN else old
    now = as_then(what, as_json(ASKED[what](whole)))
    assert as_any_ranking_has_it(what, now, said) == as_any_ranking_has_it(what, said, now)


def test_what_was_rolled_up_then_says_who_observed_it(old):
    known = WRITTEN["said"]["evidence"]
    told = {id: old.evidence(id) for id in known}
    assert sum(map(len, told.values())) > sum(map(len, known.values()))
    assert all(each.rater or each.kind == "usage" for many in told.values() for each in many)


def test_it_goes_on_in_the_new_order_and_its_chain_begins(old):
    before = [*old.context.read().events(None)]
    memory = old.record(a_memory())
    (new,) = (e for e in old.context.read().events(None) if e.subject == memory.id)
    assert new.order > max(event.order for event in before)
    assert not any(event.digest for event in before) and new.digest and new.prev == ""
    assert old.context.read().broken_chain() == []


def test_what_was_forgotten_stays_forgotten(old):
    with pytest.raises(Forgotten):
        old.get(WRITTEN["forgotten"])


def test_its_tables_can_be_made_anew_from_its_log(old):
    before = plain(old.memories(ALL, limit=1000))
    old.rebuild()
    assert plain(old.memories(ALL, limit=1000)) == before
