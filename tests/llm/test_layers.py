"""Cache, limits, deadline, budget: the same port around any model."""

import asyncio
import logging
import stat
from dataclasses import replace

import pytest
from tests.llm.conftest import run
from tests.requirement import requirement

from reasonbank import BudgetExhausted, InvalidReply, InvalidSetting, ModelUnavailable, Settings
from reasonbank.llm.budget import Budgeted, shortened
from reasonbank.llm.cache import Cached, DiskReplies, MemoryReplies
from reasonbank.llm.layers import Deadline, Limited, Preset, Scrubbed
from reasonbank.llm.port import ModelMeters, Usage, system, user
from reasonbank.llm.tokens import counter, tokens_in
from reasonbank.opening import layered
from reasonbank.settings import LLM
from reasonbank.testing import Scripted

HELLO = [user("hello")]
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def echo(call):
    return {"word": call.messages[-1].content}


class Clock:
    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(params=["memory", "disk"])
def cached(request, tmp_path):
    """A cache around a model, and what it counted."""

    def around(model, *, size=100, seconds=60.0, clock=None):
        kept = {"size": size, "seconds": seconds}
        if request.param == "memory":
            replies = MemoryReplies(**kept)
        else:
            replies = DiskReplies(tmp_path / "bank.db.replies", **kept)
        meters = ModelMeters()
        return Cached(model, replies=replies, meters=meters, clock=clock or Clock()), meters

    return around


@requirement("LLM-2")
def test_an_equal_call_at_temperature_0_is_answered_from_the_cache(cached):
    inner = Scripted(echo)
    model, meters = cached(inner)
    first = run(model.complete(HELLO, schema=WORD))
    second = run(model.complete(HELLO, schema=WORD))
    assert (first.cached, second.cached) == (False, True)
    assert second == replace(first, cached=True)
    assert second.value == {"word": "hello"}
    assert len(inner.calls) == 1
    assert (meters.cache_hits, meters.cache_misses, meters.cache_bypasses) == (1, 1, 0)


@requirement("LLM-2")
def test_any_other_call_is_made(cached):
    inner = Scripted(echo)
    model, meters = cached(inner)
    calls = [
        (HELLO, {}),
        ([user("hello!")], {}),
        ([system("hello")], {}),
        ([system("hel"), user("lo")], {}),
        (HELLO, {"schema": WORD}),
        (HELLO, {"max_tokens": 7}),
        (HELLO, {"effort": "low"}),
    ]
    for messages, options in calls:
        assert not run(model.complete(messages, **options)).cached
    other = Cached(
        Scripted(echo, name="another"), replies=model._replies, meters=meters, clock=Clock()
    )
    assert not run(other.complete(HELLO)).cached
    cut = Cached(inner, replies=model._replies, meters=meters, clock=Clock(), input_tokens=1000)
    assert not run(cut.complete(HELLO)).cached
    assert (meters.cache_hits, meters.cache_misses) == (0, len(calls) + 2)


@requirement("LLM-2")
def test_a_warm_call_goes_past_the_cache(cached):
    inner = Scripted(echo)
    model, meters = cached(inner)
    for _ in range(2):
        assert not run(model.complete(HELLO, temperature=1.0)).cached
    assert (meters.cache_bypasses, meters.cache_hits, meters.cache_misses) == (2, 0, 0)


@requirement("LLM-2")
def test_the_least_recently_used_goes_first(cached):
    clock = Clock()
    model, meters = cached(Scripted(echo), size=2, clock=clock)

    def ask(word):
        clock.now += 1
        return run(model.complete([user(word)])).cached

    assert [ask(word) for word in "aba"] == [False, False, True]
    assert ask("c") is False
    assert meters.cache_evictions == 1
    assert ask("a") is True
    assert ask("b") is False


@requirement("LLM-2")
def test_a_reply_lives_for_its_time_and_no_longer(cached):
    clock = Clock()
    model, _ = cached(Scripted(echo), seconds=60, clock=clock)
    run(model.complete(HELLO))
    clock.now += 59
    assert run(model.complete(HELLO)).cached
    clock.now += 1
    assert not run(model.complete(HELLO)).cached


@requirement("LLM-2")
def test_replies_on_disk_outlive_the_process_and_are_private(tmp_path):
    path = tmp_path / "bank.db.replies"

    def opened():
        replies = DiskReplies(path, size=10, seconds=60)
        return Cached(Scripted(echo), replies=replies, meters=ModelMeters(), clock=Clock())

    first, second = opened(), opened()
    run(first.complete([user("a secret prompt")]))
    run(first.close())
    assert run(second.complete([user("a secret prompt")])).cached
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second.clear()
    assert not run(second.complete([user("a secret prompt")])).cached
    run(second.close())


def test_a_reply_that_another_version_wrote_is_asked_for_again():
    replies = MemoryReplies(size=10, seconds=60)
    meters = ModelMeters()
    model = Cached(Scripted(echo), replies=replies, meters=meters, clock=Clock())
    run(model.complete(HELLO))
    (key,) = replies._kept
    for kept in ("{}", "[]", "nonsense", '{"usage": {}, "mood": "good", "text": "x", "model": ""}'):
        replies.put(key, kept, 1000.0)
        assert not run(model.complete(HELLO)).cached
    assert (meters.cache_hits, meters.cache_misses) == (0, 5)


def test_what_was_cleared_is_nowhere_in_the_file(tmp_path):
    path = tmp_path / "bank.db.replies"
    replies = DiskReplies(path, size=10, seconds=60)
    replies.put("key", "the launch code is 0000 " * 500, 0)
    assert b"launch code" in path.read_bytes()
    replies.clear()
    assert b"launch code" not in path.read_bytes()
    replies.close()


@pytest.mark.parametrize("damage", ["garbage", "folder", "nowhere"])
def test_a_cache_that_cannot_be_used_fails_no_call(tmp_path, caplog, damage):
    path = tmp_path / "bank.db.replies"
    if damage == "garbage":
        path.write_bytes(b"not a database " * 100)
    elif damage == "folder":
        path.mkdir()
    else:
        path = tmp_path / "no" / "such" / "folder"
    replies = DiskReplies(path, size=10, seconds=60)
    model = Cached(Scripted(echo), replies=replies, meters=ModelMeters(), clock=Clock())
    for _ in range(2):
        assert run(model.complete(HELLO)).text == '{"word": "hello"}'
    assert "is not used" in caplog.text


@requirement("LLM-2")
def test_identical_calls_in_flight_are_made_once(cached):
    release = asyncio.Event()

    async def wait(_):
        await release.wait()

    inner = Scripted(echo, delay=1, sleep=wait)
    model, meters = cached(inner)

    async def story():
        calls = [asyncio.create_task(model.complete(HELLO)) for _ in range(8)]
        while not inner.calls:
            await asyncio.sleep(0)
        release.set()
        return await asyncio.gather(*calls)

    replies = run(story())
    assert len(inner.calls) == 1
    assert len(set(map(id, replies))) == 1
    assert (meters.cache_misses, meters.shared) == (1, 7)


@requirement("LLM-2")
def test_an_error_is_shared_by_those_who_wait_and_not_kept(cached):
    inner = Scripted([ModelUnavailable("busy"), "better"])
    model, _ = cached(inner)

    async def story():
        return await asyncio.gather(
            *(model.complete(HELLO) for _ in range(3)), return_exceptions=True
        )

    assert [str(error) for error in run(story())] == ["busy"] * 3
    assert run(model.complete(HELLO)).text == "better"


def test_who_leaves_early_does_not_spoil_it_for_those_who_stay(cached):
    release = asyncio.Event()
    ended = []

    async def wait(_):
        try:
            await release.wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    inner = Scripted(echo, delay=1, sleep=wait)
    model, _ = cached(inner)

    async def story():
        first, second = (asyncio.create_task(model.complete(HELLO)) for _ in range(2))
        while not inner.calls:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        release.set()
        completion = await second
        release.clear()
        # Nobody is left who waits for this one: it ends.
        lonely = asyncio.create_task(model.complete([user("lonely")]))
        while len(inner.calls) < 2:
            await asyncio.sleep(0)
        lonely.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lonely
        while not ended:
            await asyncio.sleep(0)
        return completion

    assert run(story()).text == '{"word": "hello"}'


@requirement("LLM-5")
def test_no_more_calls_run_at_once_than_allowed():
    running, most = 0, 0

    async def work(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    inner = Scripted(echo, delay=1, sleep=work)
    model = Limited(inner, concurrency=3)

    async def story():
        await asyncio.gather(*(model.complete([user(str(i))]) for i in range(20)))

    run(story())
    assert most == 3
    assert len(inner.calls) == 20


@requirement("LLM-5")
def test_no_more_calls_start_in_any_minute_than_allowed():
    clock = Clock()
    started = []

    def answer(call):
        started.append(clock.now)
        clock.now += 1
        return "ok"

    model = Limited(
        Scripted(answer), concurrency=4, rate_per_minute=10, clock=clock, sleep=clock.sleep
    )

    async def story():
        await asyncio.gather(*(model.complete(HELLO) for _ in range(35)))

    run(story())
    assert len(started) == 35
    assert all(late - early >= 60 for early, late in zip(started, started[10:], strict=False))
    # Waits no longer than it must.
    assert started[34] - started[0] < 4 * 60


@requirement("LLM-5")
def test_a_call_that_fails_or_is_cancelled_gives_its_place_back():
    async def forever(_):
        await asyncio.Event().wait()

    inner = Scripted([ModelUnavailable("busy"), "next", "last"])
    model = Limited(inner, concurrency=1)
    with pytest.raises(ModelUnavailable):
        run(model.complete(HELLO))
    assert run(model.complete(HELLO)).text == "next"

    stuck = Limited(Scripted(echo, delay=1, sleep=forever), concurrency=1)

    async def story():
        for _ in range(3):
            task = asyncio.create_task(stuck.complete(HELLO))
            while not stuck.inner.calls:
                await asyncio.sleep(0)
            stuck.inner.calls.clear()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(story())


def test_a_deadline_counts_the_wait_for_a_turn_and_says_so():
    async def forever(_):
        await asyncio.Event().wait()

    limited = Limited(Scripted(echo, delay=1, sleep=forever), concurrency=1)
    model = Deadline(limited, seconds=0.05)

    async def story():
        with pytest.raises(ModelUnavailable, match="asking the server"):
            await model.complete(HELLO)
        busy = asyncio.create_task(limited.complete(HELLO))
        await asyncio.sleep(0)
        late = r"within 0\.05 seconds \(llm\.deadline_seconds\).*llm\.concurrency"
        with pytest.raises(ModelUnavailable, match=late):
            await model.complete(HELLO)
        busy.cancel()

    run(story())


def test_a_budget_ends_before_it_is_overspent():
    inner = Scripted(lambda _: "x" * 40)
    model = Budgeted(inner, budget=100)
    for spent in (20, 40, 60):
        run(model.complete([user("y" * 40)]))
        assert model.spent == spent
    # 10 to ask, 30 left for the reply.
    run(model.complete([user("y" * 40)], max_tokens=500))
    assert inner.calls[-1].max_tokens == 30
    assert model.left == 20
    with pytest.raises(BudgetExhausted, match=r"needs about 26 tokens.*llm\.budget_tokens.* 20"):
        run(model.complete([user("y" * 40)]))
    assert model.spent == 80


def test_a_budget_counts_what_is_in_flight_and_what_was_in_vain():
    inner = Scripted(["x" * 400] * 9, delay=1, sleep=lambda _: asyncio.sleep(0))
    model = Budgeted(inner, budget=1000)

    async def story():
        asks = (model.complete([user("y" * 40)], max_tokens=600) for _ in range(3))
        return await asyncio.gather(*asks, return_exceptions=True)

    results = run(story())
    assert [type(result).__name__ for result in results] == ["Completion"] * 2 + ["BudgetExhausted"]
    broken = InvalidReply("nonsense", reply="z" * 40, usage=Usage(input=7, output=5))
    model = Budgeted(Scripted([broken, ModelUnavailable("busy")]), budget=1000)
    for spent in (12, 12 + 2):
        with pytest.raises((InvalidReply, ModelUnavailable)):
            run(model.complete(HELLO))
        assert model.spent == spent


def test_a_prompt_that_is_too_long_loses_its_middle_and_tells(caplog):
    text = "first " + "middle " * 5_000 + "last"
    messages = (system("the task"), user(text))
    cut = shortened(messages, 1000)
    assert tokens_in(cut) <= 1000
    assert tokens_in(cut) > 950
    assert cut[0] == messages[0]
    assert cut[1].content.startswith("first middle")
    assert cut[1].content.endswith("middle last")
    assert "characters left out" in cut[1].content
    assert "cut in the middle" in caplog.text
    assert "middle middle" not in caplog.text
    assert shortened(messages, 0) == shortened(messages, 20_000) == messages
    with pytest.raises(BudgetExhausted, match=r"llm\.input_tokens"):
        shortened(tuple(user("x" * 100) for _ in range(100)), 1000)


@requirement("AGT-9")
def test_in_other_writing_a_prompt_is_cut_to_fewer_characters():
    """One token a letter, two a sign, three a picture: what models need for them, or more."""
    for letter, tokens in (("x", 0.25), ("ж", 1), ("字", 2), ("🦓", 3)):
        [cut] = shortened((user(letter * 20_000),), 1_000)
        assert cut.content.count(letter) * tokens <= 1_000


@pytest.fixture
def tokenizer(tmp_path):
    """One token for each word: no model's, but read as one's would be."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


@requirement("AGT-9")
def test_where_the_models_tokenizer_is_known_tokens_are_counted_by_it(tokenizer):
    count = counter(tokenizer)
    assert (count("three long words"), counter("")("three long words")) == (3, 4)
    messages = (system("the task"), user("word " * 5_000))
    assert tokens_in(messages, count) == 5_001
    cut = shortened(messages, 1_000, count)
    assert 900 < tokens_in(cut, count) <= 1_000
    assert shortened(messages, 6_000, count) == messages
    inner = Scripted(["fine"])
    llm = LLM(provider="ollama", model="m", tokenizer=tokenizer, budget_tokens=1_100)
    model = layered(inner, Settings(llm=llm), ModelMeters(), None)
    run(model.complete([user("word " * 1_000)], max_tokens=400))
    assert inner.calls[0].max_tokens == 100


def test_a_tokenizer_that_cannot_be_read_is_refused_by_name(tmp_path):
    (tmp_path / "broken.json").write_text("{}")
    for name in ("broken.json", "missing.json"):
        with pytest.raises(InvalidSetting, match=r"llm\.tokenizer.*" + name):
            counter(str(tmp_path / name))


def test_settings_bound_every_call():
    inner = Scripted(echo)
    model = Preset(inner, temperature=1.0, effort="low", max_tokens=100)
    run(model.complete(HELLO, max_tokens=5000))
    run(model.complete(HELLO, max_tokens=50, effort="high", temperature=0.3))
    asked = [(c.temperature, c.effort, c.max_tokens) for c in inner.calls]
    assert asked == [(1.0, "low", 100), (1.0, "high", 50)]
    run(Preset(inner, max_tokens=9).complete(HELLO, temperature=0.3))
    assert inner.calls[-1].temperature == 0.3


def test_meters_say_null_for_what_nobody_told():
    meters = ModelMeters()
    assert meters.to_json()["cost"] is None
    assert meters.to_json()["input_tokens"] is None
    meters.count(Usage())
    meters.count(Usage(input=3, output=4))
    meters.count(Usage(input=3, output=4, cost=0.5))
    known = meters.to_json()
    assert (known["input_tokens"], known["output_tokens"], known["cost"]) == (6, 8, 0.5)
    assert (known["reasoning_tokens"], known["unreported"]) == (None, 1)
    meters.reset()
    assert meters == ModelMeters()


def test_a_script_that_ends_says_so(caplog):
    caplog.set_level(logging.DEBUG)
    model = Scripted(["one"])
    assert run(model.complete(HELLO)).text == "one"
    with pytest.raises(Exception, match="no reply to call 2"):
        run(model.complete(HELLO))


@requirement("SEC-4")
@requirement("DIS-10")
def test_no_secret_leaves_with_a_prompt():
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    inner = Scripted(["yes"])
    run(Scrubbed(inner).complete([user(f"export TOKEN={secret}")]))
    assert secret not in str(inner.calls) and "[secret:" in str(inner.calls)
