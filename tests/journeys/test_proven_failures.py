"""What failed whenever it was tried is recommended to nobody, and told as a warning."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.requirement import requirement
from tests.surfaces.http_server import command, serving
from tests.surfaces.mcp_agent import Agent, command as command_line

from reasonbank import Bank, Settings
from reasonbank.settings import Embed
from reasonbank.surfaces.show import report_page
from reasonbank.testing import a_memory

ASKED = "TLS handshake times out behind the proxy"
WORDINGS = [
    ASKED,
    "why do TLS handshakes behind our proxy time out?",
    "the TLS handshake hangs behind haproxy",
    "proxy: TLS handshake timed out",
    "TLS timeouts through the proxy",
    "clients see TLS handshake timeouts from the proxy",
    "TLS handshake times out, the proxy is in front",
]
LESSON = {
    "title": "Restart the proxy when TLS handshakes time out",
    "description": "When TLS handshakes time out behind the proxy",
    "content": "systemctl restart haproxy; the handshake works again.",
    "outcome": "success",
}
OTHER = {
    "title": "Raise the TLS handshake timeout of the proxy",
    "description": "When the TLS handshake times out behind the proxy under load",
    "content": "Set timeout client-hs 30s in the proxy and reload it.",
    "outcome": "success",
}
FAILED = "was tried 7 times here and failed each time"


def fail(bank, id, how, questions):
    for i in range(7):
        session = f"task-{i}"
        bank.search(questions[i % len(questions)], session=session)
        if how == "outcome":
            bank.outcome(id, succeeded=False, session=session)
        elif how == "credit":
            bank.credit(session, succeeded=False)
        elif how == "without a session":
            bank.outcome(id, succeeded=False)
        else:
            bank.feedback(id, helpful=False)


WAYS = ["outcome", "credit", "without a session", "rating"]


@requirement("RET-14")
@requirement("RET-18")
@pytest.mark.parametrize("questions", [[ASKED], WORDINGS], ids=["same", "varied"])
@pytest.mark.parametrize("how", WAYS)
def test_seven_failures_are_a_warning_and_no_advice(bank, how, questions):
    memory = bank.record(a_memory(**LESSON))
    fail(bank, memory.id, how, questions)
    [hit] = bank.search(ASKED)
    assert (hit.tried, hit.worked, hit.failing) == (7, 0, True)
    assert hit.expected < 0.5
    assert hit.memory.confidence < 0.5
    advice = bank.recommend(ASKED)
    assert advice.strategy is None
    assert [failed.id for failed in advice.failed] == [memory.id]
    assert FAILED in advice.reasoning
    given = bank.inject(ASKED, session="next")
    assert (given.memories, given.warned) == ((), (memory.id,))
    assert f"WARNING: {FAILED}" in given.prompt
    assert 'outcome="success"' not in given.prompt
    # How a task goes that was warned of it says nothing of it.
    assert bank.credit("next", succeeded=True) == 0


@requirement("RET-18")
def test_what_fails_makes_room_for_what_may_help(bank):
    fails, other = bank.record(a_memory(**LESSON)), bank.record(a_memory(**OTHER))
    for i in range(3):
        bank.search(ASKED, session=f"task-{i}")
        bank.outcome(fails.id, succeeded=False, session=f"task-{i}")
    given = bank.inject(ASKED, limit=1)
    assert (given.memories, given.warned) == ((other.id,), (fails.id,))
    assert given.prompt.index(OTHER["title"]) < given.prompt.index("WARNING: was tried 3 times")
    assert bank.recommend(ASKED).strategy.id == other.id
    small = bank.inject(ASKED, max_tokens=given.tokens - 1)
    assert (small.memories, small.warned) == ((other.id,), ())
    assert small.withheld == ((fails.id, "was tried 3 times here and failed each time"),)


@requirement("RET-18")
def test_what_helped_elsewhere_is_not_injected_where_its_forecast_is_low(bank):
    memory = bank.record(
        a_memory(
            title="Clear the cache",
            description="When the build fails with stale objects or the login is refused",
            content="Delete the cache folder and try again.",
        )
    )
    build, login = "the build fails with stale objects", "the login is refused, wrong password"
    for i in range(6):
        for question, succeeded in ((build, True), (login, False)):
            bank.search(question, session=f"{question} {i}")
            bank.outcome(memory.id, succeeded=succeeded, session=f"{question} {i}")
    assert bank.get(memory.id).confidence > 0.5
    assert memory.id in bank.inject(build).memories
    [hit] = bank.search(login)
    assert (hit.tried, hit.worked, hit.failing) == (12, 6, False)
    assert hit.expected < 0.3
    assert bank.inject(login).memories == ()
    assert bank.recommend(login).strategy is None


@requirement("RET-18")
def test_failures_in_which_a_memory_had_a_small_share_silence_nothing(bank):
    for number in range(3):
        bank.record(a_memory(**LESSON | {"title": f"{LESSON['title']} (way {number})"}))
    for i in range(2):
        assert len(bank.inject(ASKED, session=f"task-{i}").memories) == 3
        bank.credit(f"task-{i}", succeeded=False)
    assert bank.inject(ASKED).memories


@requirement("RET-18")
def test_what_failed_long_ago_may_be_tried_again(bank, clock):
    memory = bank.record(a_memory(**LESSON))
    for _ in range(3):
        bank.outcome(memory.id, succeeded=False)
    assert bank.inject(ASKED).memories == ()
    clock.advance(days=400)
    assert bank.inject(ASKED).memories == (memory.id,)


@requirement("RET-18")
def test_what_links_and_contradictions_bring_has_a_forecast_too(bank):
    one, other = bank.record(a_memory(**LESSON)), bank.record(a_memory(title="Bake a cake"))
    against = bank.record(a_memory(title="Never touch the oven"))
    bank.link(one.id, other.id, type="similar", strength=0.9)
    bank.link(one.id, against.id, type="contradicts")
    for i in range(2):
        bank.outcome(other.id, succeeded=True, session=f"task-{i}")
    found = {hit.memory.id: hit for hit in bank.search(ASKED, follow_links=True)}
    assert found.keys() == {one.id, other.id, against.id}
    assert all(0 <= hit.expected <= 1 for hit in found.values())
    assert (found[other.id].tried, found[other.id].worked) == (2, 2)


@requirement("RET-14")
def test_a_recommendation_has_a_forecast_successes_and_a_domain_that_nobody_set(bank):
    untried, proven = bank.record(a_memory(**OTHER)), bank.record(a_memory(**LESSON))
    for i in range(4):
        bank.search(ASKED, session=f"task-{i}")
        bank.outcome(proven.id, succeeded=True, session=f"task-{i}")
        bank.outcome(untried.id, succeeded=False, session=f"task-{i}")
    advice = bank.recommend(ASKED)
    assert advice.strategy.id == proven.id
    assert (advice.tried, advice.worked, advice.successful_uses) == (4, 4, 4)
    assert 0.5 < advice.expected <= 1
    assert f"the forecast for this task is {advice.expected:.2f}" in advice.reasoning
    assert "4 of 4 tasks that used it succeeded" in advice.reasoning
    assert advice.domain == "networking"


@requirement("RET-14")
def test_a_guess_is_called_a_guess(bank):
    bank.record(a_memory(**LESSON))
    advice = bank.recommend(ASKED)
    assert (advice.tried, advice.worked, advice.successful_uses) == (0, 0, 0)
    assert "a guess by how well it fits" in advice.reasoning


# At the doors: other processes, on a bank where it all happened


@pytest.fixture
def failed_bank(tmp_path):
    url = f"sqlite:///{tmp_path}/bank.db"
    with Bank.open(url, workspace=tmp_path, settings=Settings(embed=Embed(model="hashed"))) as bank:
        memory = bank.record(a_memory(**LESSON))
        fail(bank, memory.id, "outcome", [ASKED])
    return url, memory.id


@requirement("RET-14")
@requirement("RET-18")
def test_at_the_command_line(tmp_path):
    def shell(*words, json=True):
        code, told = command(tmp_path, "--workspace", tmp_path, *words)
        assert code == 0, told
        return told

    flags = [word for name in ("title", "description", "content", "outcome")
             for word in (f"--{name}", LESSON[name])]  # fmt: skip
    id = shell("record", *flags)["id"]
    [new] = shell("search", ASKED)["memories"]
    assert (new["tried"], new["worked"], new["untried"]) == (0, 0, True)
    for session in ("one", "two", "three"):
        shell("search", ASKED, "--session", session)
        shell("outcome", "--failed", "--session", session)
    [found] = shell("search", ASKED)["memories"]
    assert (found["tried"], found["worked"], found["failing"]) == (3, 0, True)
    assert found["expected"] < 0.5
    advice = shell("recommend", ASKED)
    assert (advice["strategy"], advice["expected"]) == (None, None)
    assert [failed["id"] for failed in advice["failed"]] == [id]
    given = shell("inject", ASKED)
    assert (given["memories"], given["warned"]) == ([], [id])
    assert "WARNING: was tried 3 times here and failed each time" in given["prompt"]


@requirement("RET-18")
def test_a_card_says_the_forecast_and_what_it_rests_on(failed_bank, tmp_path, capfd):
    from reasonbank.surfaces.show import cards

    url, _ = failed_bank
    with Bank.open(url, workspace=tmp_path, settings=Settings(embed=Embed(model="hashed"))) as bank:
        bank.record(a_memory(**OTHER))
        cards.reply(bank.search(ASKED), explain=False)
    drawn = capfd.readouterr().out
    assert "(worked 0 of 7)" in drawn
    assert f"Warning: {FAILED}" in drawn
    assert "(untried)" in drawn


@requirement("RET-14")
@requirement("RET-18")
def test_over_http(failed_bank, tmp_path):
    url, id = failed_bank
    with serving(tmp_path, "--bank", url) as server, server.client(workspace=tmp_path) as client:
        [found] = client.post("/search", json={"query": ASKED}).json()["memories"]
        assert (found["tried"], found["worked"], found["failing"]) == (7, 0, True)
        assert found["expected"] < 0.5
        advice = client.post("/recommend", json={"task": ASKED}).json()
        assert advice["strategy"] is None
        assert [failed["id"] for failed in advice["failed"]] == [id]
        assert advice["domain"] == "networking"
        given = client.post("/inject", json={"task": ASKED}).json()
        assert (given["memories"], given["warned"]) == ([], [id])
        client.post("/memories", json=OTHER)
        found = client.post("/search", json={"query": ASKED}).json()["memories"]
        assert [hit["tried"] for hit in found if hit["id"] != id] == [0]
        best = client.post("/recommend", json={"task": ASKED}).json()
        assert best["strategy"]["title"] == OTHER["title"]
        assert 0 < best["expected"] <= 1 and best["successful_uses"] == 0


@requirement("RET-14")
@requirement("RET-18")
def test_over_mcp(tmp_path):
    [python, *words], environment = command_line(tmp_path, "mcp")
    server = StdioServerParameters(command=python, args=words, env=environment, cwd=tmp_path)

    async def session():
        with anyio.fail_after(90):
            async with Client(server) as client:
                agent = Agent(client)
                id = (await agent("memory_record", **LESSON))["id"]
                [new] = (await agent("memory_search", query=ASKED))["memories"]
                assert new["untried"] and new["expected"] > 0
                for i in range(3):
                    task = f"task-{i}"
                    await agent("memory_search", query=ASKED, session_id=task)
                    await agent("memory_outcome", session_id=task, succeeded=False)
                [hit] = (await agent("memory_search", query=ASKED))["memories"]
                assert (hit["tried"], hit["worked"], hit["failing"]) == (3, 0, True)
                assert hit["expected"] < 0.5 and "untried" not in hit
                advice = await agent("memory_recommend", task=ASKED)
                assert (advice["strategy"], advice["expected"]) == (None, None)
                assert [failed["id"] for failed in advice["failed"]] == [id]
                assert "failed each time" in advice["reasoning"]

    anyio.run(session)


@requirement("PRV-2")
def test_the_report_draws_forecasts_and_confidence(bank):
    memory = bank.record(a_memory(**LESSON))
    fail(bank, memory.id, "outcome", [ASKED])
    found = bank.report()
    assert (found.calibration.count, found.confidence.count) == (7, 7)
    # Confidence begins at 0.8, as does no forecast of the last failures.
    said = found.confidence.bins
    assert said[-1].predicted == pytest.approx(0.8)
    assert said[-1].observed == 0.0
    assert found.confidence.brier > found.calibration.brier
    page = report_page.html(found)
    assert "Forecasts: predicted against observed success" in page
    assert "Confidence: predicted against observed success" in page
    assert page.count("<svg") == 2
    assert found.to_json()["confidence_calibration"]["count"] == 7
