"""What a search finds, in which order, and what its reply says about itself."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.conftest import Fragile
from tests.requirement import requirement

from reasonbank import Filter, InvalidInput, Memory, Outcome, Scope, Settings, Source, State
from reasonbank.embed.minilm import MiniLM
from reasonbank.fields import plain
from reasonbank.ledger.events import Event, EventType, lesson
from reasonbank.ledger.vectors import PackedVector
from reasonbank.model import new_id, to_micros
from reasonbank.search.text import tokens_in
from reasonbank.settings import Embed, Search
from reasonbank.store import vectors
from reasonbank.testing import a_memory, a_warning


def found(reply):
    return [hit.memory.title for hit in reply]


def library(bank):
    """Five lessons on five subjects."""
    shelf = {
        "backoff": ("Wait longer after each failed attempt", "When a remote call times out",
                    "Sleep 1, 2, 4 seconds between tries and add random jitter."),
        "index": ("Index the column of the WHERE clause",
                  "When a database query is slow because it scans a whole table",
                  "EXPLAIN shows a sequential scan; create a B-tree."),
        "duplicate": ("Upsert instead of insert", "When MongoDB answers E11000",
                      "E11000 means that a document with this key is there already."),
        "parser": ("Keep parse_config_v2 pure", "When touching the configuration loader",
                   "parse_config_v2 must not read the environment."),
        "cake": ("Cool the cake before icing it", "When baking",
                 "Warm sponge melts buttercream; wait an hour."),
    }  # fmt: skip
    return {
        key: bank.record(Memory(title=t, description=d, content=c, outcome=Outcome.SUCCESS))
        for key, (t, d, c) in shelf.items()
    }


@requirement("RET-1")
@requirement("RET-2")
@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("SQL performance tuning in Postgres", "index"),
        ("let pastry get cold prior to frosting", "cake"),
        ("frosting runs off my dessert", "cake"),
    ],
)
def test_a_paraphrase_is_found_by_its_meaning(bank, question, key):
    shelf = library(bank)
    reply = bank.search(question)
    assert reply[0].memory.id == shelf[key].id
    assert not reply.degraded
    assert reply.embedder == MiniLM.name


@requirement("RET-1")
def test_statistics_name_the_model_in_use(bank):
    numbers = bank.statistics()
    assert numbers.embedder == MiniLM.name
    assert numbers.semantic
    assert not numbers.degraded


@requirement("RET-2")
@pytest.mark.parametrize(
    ("question", "key"), [("E11000", "duplicate"), ("parse_config_v2", "parser")]
)
def test_an_exact_identifier_is_found_by_its_letters(bank, question, key):
    shelf = library(bank)
    for i in range(20):
        bank.record(a_memory(title=f"E1100{i + 1} and parse_config_v{i + 3}", content=f"x{i}"))
    assert bank.search(question)[0].memory.id == shelf[key].id


@requirement("RET-2")
def test_if_embedding_fails_words_answer_and_the_reply_says_so(open_bank):
    embedder = Fragile()
    bank = open_bank.with_embedder(embedder)
    bank.record(a_memory(title="Known before"))
    bank.search("anything")
    embedder.broken = True
    bank.record(a_memory(title="Known since"))
    reply = bank.search("retry uploads")
    assert set(found(reply)) == {"Known before", "Known since"}
    assert reply.degraded
    assert any("the model is on holiday" in note for note in reply.notes)
    assert reply.embedder == "none"
    embedder.broken = False
    assert not bank.search("retry uploads").degraded


@requirement("RET-2")
def test_the_degraded_embedder_is_named_in_every_reply(plain_bank):
    reply = plain_bank.search("anything")
    assert reply.degraded
    assert reply.embedder == "hashed-384"
    assert any("embed.model" in note for note in reply.notes)


@requirement("RET-4")
def test_a_score_is_composite_times_confidence_times_scope_times_boost(plain_bank):
    for scope in Scope:
        plain_bank.record(a_memory(title=scope, scope=scope))
    plain_bank.record(a_memory(title="merged", source=Source.CONSOLIDATED))
    hits = {hit.memory.title: hit for hit in plain_bank.search("retry uploads", explain=True)}
    assert {title: hit.parts["scope"] for title, hit in hits.items()} == {
        "project": 1.0, "team": 0.9, "org": 0.8, "merged": 1.0,
    }  # fmt: skip
    assert {title: hit.parts["boost"] for title, hit in hits.items()} == {
        "project": 1.0, "team": 1.0, "org": 1.0, "merged": 1.2,
    }  # fmt: skip
    for hit in hits.values():
        p = hit.parts
        product = p["composite"] * p["confidence"] * p["scope"] * p["boost"]
        assert hit.score == pytest.approx(product, abs=1e-5)
        assert p["confidence"] == hit.memory.confidence


@requirement("RET-4")
def test_uses_and_the_time_of_the_last_are_counted(open_bank, clock):
    with open_bank() as bank:
        memory = bank.record(a_memory())
        for _ in range(3):
            bank.search("retry uploads")
            clock.advance(days=1)
        assert bank.search("nothing of the kind zzz").hits == ()
    with open_bank() as bank:
        assert bank.get(memory.id).usage_count == 3
        last = bank.get(memory.id).last_used
        clock.advance(days=1)
        bank.search("retry uploads")
        bank.record(a_memory())
        assert bank.get(memory.id).usage_count == 4
        assert bank.get(memory.id).last_used > last


@requirement("RET-4")
def test_an_open_bank_shows_its_own_uses_at_once(bank):
    memory = bank.record(a_memory())
    for number in range(1, 4):
        bank.search("retry uploads")
        assert bank.get(memory.id).usage_count == number
        assert bank.get(memory.id).last_used is not None
        assert [m.usage_count for m in bank.memories()] == [number]
    bank.search("retry uploads")
    assert bank.statistics().searches.answered == 4
    other = bank.record(a_memory(title="Sourdough", content="Twelve hours."))
    bank.search("sourdough")
    assert [e.kind for e in bank.evidence(other.id)] == ["usage"]


@requirement("RET-4")
def test_each_of_many_threads_sees_its_own_use(bank):
    ids = [bank.record(a_memory(title=f"word{n}", content=f"word{n}")).id for n in range(8)]

    def use(number):
        for times in range(1, 6):
            assert bank.search(f"word{number}", limit=1)[0].memory.id == ids[number]
            assert bank.get(ids[number]).usage_count == times
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(8)))


@requirement("RET-5")
def test_near_copies_do_not_crowd_out_another_answer(bank):
    text = "Wait longer after each failed attempt, with jitter"
    for i in range(6):
        bank.record(a_memory(title=text, content=f"{text}, like this.", tags=(f"copy{i}",)))
    other = bank.record(a_memory(title="Cache what was uploaded", content="Skip known chunks."))
    assert other.id in {hit.memory.id for hit in bank.search("upload fails, retry", limit=2)}


@requirement("RET-6")
def test_a_memory_with_error_context_is_flagged_as_a_warning(plain_bank):
    plain_bank.record(a_memory(title="retry"))
    plain_bank.record(a_warning(title="retry too"))
    flags = {hit.memory.title: hit.warning for hit in plain_bank.search("retry")}
    assert flags == {"retry": False, "retry too": True}
    shown = {h["title"]: h["warning"] for h in plain_bank.search("retry").to_json()["memories"]}
    assert shown == flags


@requirement("RET-6")
def test_failures_only_successes_only_or_both(plain_bank):
    for outcome in Outcome:
        plain_bank.record(a_memory(title=outcome, outcome=outcome))

    def only(*outcomes):
        return set(found(plain_bank.search("uploads", filter=Filter(outcomes=outcomes))))

    assert only(Outcome.FAILURE) == {"failure"}
    assert only(Outcome.SUCCESS) == {"success"}
    assert only(Outcome.SUCCESS, Outcome.FAILURE) == {"success", "failure"}
    assert only() == {"success", "failure", "mixed"}


@requirement("RET-6")
def test_warnings_of_one_error_type_can_be_asked_for(plain_bank):
    for kind in ("KeyError", "ValueError"):
        plain_bank.record(a_warning(kind, title=f"lock {kind}"))
    plain_bank.record(a_memory(title="lock"))
    by_type = plain_bank.search("lock", filter=Filter(error_type="KeyError"))
    assert found(by_type) == ["lock KeyError"]
    warnings = plain_bank.search("lock", filter=Filter(warnings_only=True))
    assert set(found(warnings)) == {"lock KeyError", "lock ValueError"}


@requirement("RET-6")
def test_a_warning_whose_pattern_matches_the_task_ranks_higher(bank):
    """The two differ in nothing but their error context."""
    bank.record(a_warning("UnicodeDecodeError", "bytes are not UTF-8", title="other"))
    bank.record(a_warning("DeadlockDetected", "rows locked in opposite order", title="this one"))
    bank.record(a_warning("TimeoutError", "the server is slow", title="another"))
    reply = bank.search("DeadlockDetected: workers locked rows in opposite order", explain=True)
    assert found(reply)[0] == "this one"
    parts = {hit.memory.title: hit.parts["error_match"] for hit in reply}
    assert parts["this one"] == 1.0
    assert all(value < 1.0 for title, value in parts.items() if title != "this one")


# Filters

ODD = {
    "scopes": ({"scope": Scope.ORG}, Filter(scopes=(Scope.ORG,))),
    "outcome": ({"outcome": Outcome.MIXED}, Filter(outcomes=(Outcome.MIXED,))),
    "source": ({"source": Source.SOLVED}, Filter(sources=(Source.SOLVED, Source.PEER))),
    "tags": ({"tags": ("a", "b")}, Filter(tags=("b", "a"))),
    "domain": ({"domain": "databases"}, Filter(domain="databases")),
    "agent": ({"agent": "codex"}, Filter(agent="codex")),
    "task_type": ({"task_type": "bugfix"}, Filter(task_type="bugfix")),
}


@requirement("RET-7")
@pytest.mark.parametrize("name", ODD)
def test_each_filter_keeps_exactly_what_it_names(plain_bank, name):
    fields, filter = ODD[name]
    odd = plain_bank.record(a_memory(title="odd", **fields))
    plain_bank.record(a_memory(title="even", tags=("a",), domain="d", agent="x", task_type="y"))
    plain_bank.record(a_memory(title="plain"))
    assert found(plain_bank.search("retry uploads", filter=filter)) == ["odd"]
    assert [m.id for m in plain_bank.memories(filter)] == [odd.id]


@requirement("RET-7")
def test_filters_by_age_state_and_confidence(plain_bank, clock):
    old = plain_bank.record(a_memory(title="old"))
    archived = plain_bank.record(a_memory(title="archived"))
    plain_bank.archive(archived.id)
    clock.advance(days=10)
    plain_bank.record(a_memory(title="new", source=Source.PASSIVE))
    border = to_micros(old.created_at) + 1_000_000

    def kept(filter=None, **options):
        return set(found(plain_bank.search("retry uploads", filter=filter, **options)))

    assert kept() == {"old", "new"}
    assert kept(Filter(created_after=border)) == {"new"}
    assert kept(Filter(created_before=border)) == {"old"}
    assert kept(Filter(states=(State.ARCHIVED,))) == {"archived"}
    assert kept(Filter(states=tuple(State))) == {"old", "archived", "new"}
    assert kept(min_confidence=0.51) == {"old"}
    assert kept(min_confidence=0.81) == set()


@requirement("RET-7")
def test_filters_combine(plain_bank):
    for tag in ("x", "y"):
        for domain in ("d", "e"):
            for outcome in (Outcome.SUCCESS, Outcome.FAILURE):
                title = f"{tag}{domain}{outcome}"
                memory = a_memory(title=title, tags=(tag,), domain=domain, outcome=outcome)
                plain_bank.record(memory)
    both = Filter(tags=("x",), domain="e", outcomes=(Outcome.FAILURE,), scopes=(Scope.PROJECT,))
    assert found(plain_bank.search("retry uploads", filter=both)) == ["xefailure"]
    assert not plain_bank.search("retry uploads", filter=Filter(tags=("x", "y"))).hits


class Compass(Fragile):
    """Points where the test says: vectors of texts that it knows."""

    dimensions = 32
    semantic = True

    def __init__(self):
        super().__init__("compass")
        self.known = {}

    def embed(self, texts):
        rows = [self.known[text] for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.dimensions)


@pytest.fixture
def crowd(open_bank):
    return crowd_in(open_bank, 20_000)


def crowd_in(open_bank, count):
    """Rows with random vectors, written at once; 1 % of each kind is special."""
    random = np.random.default_rng(7)
    vectors = random.normal(size=(count, Compass.dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stored = vectors.astype(np.float16)
    compass = Compass()
    by_cosine = Settings(search=Search(recency=0, error_match=0, diversity=1, threshold=0))
    bank = open_bank.with_embedder(compass, settings=by_cosine)
    chosen = random.permutation(count)[: 3 * count // 100].reshape(3, -1)
    special = {kind: set(rows.tolist()) for kind, rows in zip("abc", chosen, strict=True)}

    def write(txn):
        bank.context.join(txn)
        at = txn.stamp()
        for i in range(count):
            memory = a_memory(
                title=str(i),
                description="d",
                content="c",
                tags=("rare",) if i in special["a"] else (),
                outcome=Outcome.FAILURE if i in special["b"] else Outcome.SUCCESS,
                source=Source.EXPLICIT if i in special["c"] else Source.PASSIVE,
            )
            txn.append(
                Event(
                    id=new_id(), type=EventType.RECORDED, subject=memory.id, at=at + i,
                    workspace=bank.view.workspace, origin="test", author="test",
                    surface="test", payload={"lesson": lesson(memory), "stage": 0},
                )
            )  # fmt: skip
        nums = txn.matching(bank.view, Filter(), None)
        txn.put_vectors(
            "compass",
            [
                PackedVector(n, 1, row.tobytes())
                for n, row in zip(nums.tolist(), stored, strict=True)
            ],
        )

    bank.context.write(write)
    return bank, compass, stored.astype(np.float32), special


@requirement("RET-7")
def test_a_filter_that_keeps_one_percent_returns_the_true_best(crowd):
    bank, compass, vectors, special = crowd
    random = np.random.default_rng(8)
    by_tag, by_outcome = Filter(tags=("rare",)), Filter(outcomes=(Outcome.FAILURE,))
    for question in ("where?", "which?"):
        arrow = random.normal(size=Compass.dimensions)
        compass.known[question] = arrow / np.linalg.norm(arrow)
        cosines = vectors @ compass.known[question].astype(np.float32)
        for kind, options in (
            ("a", {"filter": by_tag}),
            ("b", {"filter": by_outcome}),
            ("c", {"min_confidence": 0.7}),
        ):
            passing = np.array(sorted(special[kind]))
            best = passing[np.argsort(-cosines[passing], kind="stable")[:10]]
            reply = bank.search(question, limit=10, **options)
            assert found(reply) == [str(i) for i in best], (question, kind)
            assert not reply.degraded


@requirement("RET-2")
def test_in_a_large_bank_rare_words_lead_and_common_ones_still_count(plain_bank):
    """From 2,000 rows on, only rows with a rare word of the question are scored by words."""
    rows = 2_400

    def write(txn):
        plain_bank.context.join(txn)
        for i in range(rows):
            words = "retry upload network" if i % 2 else "retry download network"
            rare = {7: "E11000", 8: "E11000 upload", 9: "parse_config_v2"}.get(i, "")
            payload = {"lesson": lesson(a_memory(title=f"{words} {rare}")), "stage": 0}
            plain_bank.context.append(txn, EventType.RECORDED, new_id(), payload)

    plain_bank.context.write(write)
    reading = plain_bank.store.ledger.read()

    def best(*terms):
        nums, scores = reading.words(plain_bank.view, Filter(), terms, 5, None)
        titles = [row.memory().title for row in reading.rows(plain_bank.view, nums.tolist())]
        return [title.split()[-1] for title in titles], scores.round(6).tolist()

    assert set(best("retry", "network", "e11000", "upload")[0][:2]) == {"upload", "E11000"}
    assert best("retry", "parse config v2")[0][0] == "parse_config_v2"
    assert len(best("retry", "network")[0]) == 5
    assert len(best("retry", "unheard")[0]) == 5
    everything = np.arange(1, 10 * rows)
    for terms in (("retry", "e11000"), ("upload", "e11000", "network")):
        fewer = best(*terms)[1]
        _, every = reading.words(plain_bank.view, Filter(), terms, len(fewer), everything)
        assert fewer == every.round(6).tolist()


@requirement("WSP-2")
def test_a_word_that_only_others_use_hides_nothing_that_is_here(open_bank):
    here = open_bank(workspace=open_bank.project("here"))
    there = open_bank(workspace=open_bank.project("there"))

    def write(bank, word):
        def work(txn):
            bank.context.join(txn)
            for i in range(1_200):
                payload = {"lesson": lesson(a_memory(title=f"retry {word} {i}")), "stage": 0}
                bank.context.append(txn, EventType.RECORDED, new_id(), payload)

        bank.context.write(work)

    write(here, "upload")
    write(there, "zebra")
    reading = here.store.ledger.read()
    assert len(reading.words(here.view, Filter(), ("retry", "zebra"), 50, None)[0]) == 50
    assert not len(reading.words(here.view, Filter(), ("zebra",), 50, None)[0])


# Explanations, abstention, cost

PARTS = {
    "cosine", "distance", "bm25", "recency", "error_match", "confidence", "scope", "boost",
    "similarity", "composite", "score",
}  # fmt: skip


@requirement("RET-8")
def test_an_explanation_has_every_part_of_every_score(bank):
    library(bank)
    for hit in bank.search("the query scans a whole table", explain=True):
        assert hit.parts.keys() >= PARTS
        distance = (2 - 2 * hit.parts["cosine"]) ** 0.5
        assert hit.parts["distance"] == pytest.approx(distance, abs=1e-3)
        assert hit.parts["score"] == hit.score
    assert all(not hit.parts for hit in bank.search("the query scans a whole table"))


@requirement("RET-8")
def test_an_explanation_says_why_each_other_candidate_was_dropped(bank):
    shelf = library(bank)
    low = bank.record(a_memory(title="Index rows", content="index", source=Source.PASSIVE))
    foreign = bank.record(a_memory(title="Index columns", content="index", domain="other"))
    copies = [bank.record(a_memory(title="Scan", content="query scans a table", domain="db"))
              for _ in range(2)]  # fmt: skip
    for memory in shelf.values():
        bank.update(memory.id, domain="db")
    bank.update(low.id, domain="db")
    reply = bank.search(
        "the query scans a whole table, add an index",
        explain=True, limit=2, min_confidence=0.6,
        filter=Filter(outcomes=(Outcome.SUCCESS,)),
    )  # fmt: skip
    reasons = dict(reply.dropped)
    everybody = {m.id for m in bank.memories()}
    assert set(reasons) | {hit.memory.id for hit in reply} == everybody
    assert "confidence 0.50 is under 0.60" in reasons[low.id]
    assert "below the threshold" in reasons[shelf["parser"].id]
    dropped_copy = next(c.id for c in copies if c.id in reasons)
    assert "redundant" in reasons[dropped_copy] or "limit" in reasons[dropped_copy]
    assert foreign.id in reasons
    assert not bank.search("the query scans a whole table").dropped


@requirement("RET-8")
def test_an_explanation_names_what_the_filter_left_out(bank):
    kept = bank.record(a_memory(title="kept"))
    other = bank.record(a_memory(title="other", outcome=Outcome.FAILURE))
    reply = bank.search("retry uploads", explain=True, filter=Filter(outcomes=(Outcome.SUCCESS,)))
    assert [hit.memory.id for hit in reply] == [kept.id]
    assert dict(reply.dropped)[other.id] == "left out by the filter"


@requirement("RET-9")
@pytest.mark.parametrize(
    "question", ["who won the football match", "a holiday by the sea", "qwrtzp"]
)
def test_a_question_that_nothing_answers_gets_nothing(bank, question):
    library(bank)
    reply = bank.search(question)
    assert (reply.hits, reply.total_found, reply.tokens_used) == ((), 0, 0)


@requirement("RET-9")
@pytest.mark.parametrize(
    "question", ["keep the receipts of the restaurant", "what is the key to happiness"]
)
def test_one_word_in_common_does_not_make_a_sure_answer(bank, question):
    library(bank)
    assert all(hit.weak for hit in bank.search(question))


@pytest.mark.parametrize("alike", [1, 2, 5])
def test_an_answer_that_was_recorded_more_than_once_stays_a_sure_one(bank, alike):
    """Nor does it fall silent where nobody asked."""
    for number in range(alike):
        bank.record(a_memory(title=f"Wait for the port, way {number}"))
    question = "wait for the port of a server in a test"
    assert len(bank.search(question).sure) == alike
    assert len(bank.inject(question).memories) == alike


def test_a_clear_match_in_meaning_is_enough_without_a_word_in_common(bank):
    shelf = library(bank)
    reply = bank.search("HTTP retries with exponential backoff after timeouts")
    assert [hit.memory.id for hit in reply] == [shelf["backoff"].id]


@requirement("RET-9")
def test_the_threshold_belongs_to_the_model_and_can_be_set(open_bank):
    generous = open_bank(settings=Settings(search=Search(threshold=0.0)))
    library(generous)
    assert len(generous.search("who won the football match")) == 5
    strict = open_bank(settings=Settings(search=Search(threshold=1.0)))
    assert strict.search("Sleep seconds between tries").hits == ()


@requirement("RET-10")
def test_a_reply_says_how_many_were_found_in_all(plain_bank):
    for i in range(30):
        plain_bank.record(a_memory(title=f"upload {i}"))
    reply = plain_bank.search("retry uploads", limit=4)
    assert (len(reply), reply.total_found) == (4, 30)


@requirement("RET-10")
def test_a_reply_says_when_more_may_be_found_than_it_counted(plain_bank):
    for i in range(120):
        plain_bank.record(a_memory(title=f"upload {i}"))
    plain_bank.embed_new()
    reply = plain_bank.search("retry uploads", limit=4)
    assert reply.total_found >= 100
    assert reply.more


@requirement("RET-10")
def test_a_reply_says_what_its_text_costs_and_max_tokens_bounds_it(plain_bank):
    for i in range(8):
        plain_bank.record(a_memory(title=f"upload {i}", content="retry " * 10 * (i + 1)))
    whole = plain_bank.search("retry uploads", limit=8)
    cost = [tokens_in(hit.format_for_prompt()) for hit in whole]
    assert whole.tokens_used == sum(cost)
    for budget in (1, min(cost), 200, sum(cost) - 1, sum(cost)):
        reply = plain_bank.search("retry uploads", limit=8, max_tokens=budget, explain=True)
        assert reply.tokens_used <= budget
        assert reply.total_found == 8
        too_long = [reason for _, reason in reply.dropped if "max_tokens" in reason]
        assert len(too_long) == 8 - len(reply)
    assert len(plain_bank.search("retry uploads", limit=8, max_tokens=sum(cost))) == 8
    assert len(plain_bank.search("retry uploads", limit=8, max_tokens=1)) == 0


# The embedding model changes


def test_reindex_with_nothing_to_do_says_so(plain_bank):
    plain_bank.record(a_memory())
    plain_bank.search("x")
    assert plain(plain_bank.reindex()) == {"embedded": 0, "dropped": 0, "embedder": "hashed-384"}


@requirement("RET-11")
def test_vectors_of_two_models_are_never_compared(open_bank):
    with open_bank(settings=Settings()) as bank:
        library(bank)
    bank = open_bank()
    reply = bank.search("sleep between tries", explain=True, min_confidence=0)
    assert reply.hits
    assert all("cosine" not in hit.parts for hit in reply)
    assert any("5 memories" in note and "reasonbank reindex" in note for note in reply.notes)
    new = bank.record(a_memory(title="sleep between tries"))
    parts = {hit.memory.id: hit.parts for hit in bank.search("sleep between tries", explain=True)}
    assert "cosine" in parts.pop(new.id)
    assert parts
    assert all("cosine" not in part for part in parts.values())


@requirement("RET-11")
def test_reindex_gives_every_memory_a_vector_of_the_model_in_use(open_bank):
    with open_bank() as bank:
        shelf = library(bank)
    bank = open_bank(settings=Settings())
    assert bank.search("frosting runs off my dessert").hits == ()
    seen = []
    assert plain(bank.reindex(lambda *progress: seen.append(progress))) == {
        "embedded": 5, "dropped": 5, "embedder": MiniLM.name,
    }  # fmt: skip
    assert seen[-1] == (5, 5)
    reply = bank.search("frosting runs off my dessert")
    assert reply[0].memory.id == shelf["cake"].id
    assert not reply.degraded
    assert bank.statistics().embedded_by_other_models == 0


class Stop(Exception):
    pass


@requirement("RET-11")
def test_reindex_can_be_stopped_and_goes_on_where_it_was(open_bank):
    with open_bank.with_embedder(Fragile("old")) as bank:
        for i in range(150):
            bank.record(a_memory(title=f"upload {i}"))
    bank = open_bank.with_embedder(Fragile("new"))

    def stop(done, total):
        assert total == 150
        raise Stop

    with pytest.raises(Stop):
        bank.reindex(stop)
    left = bank.statistics().embedded_by_other_models
    assert 0 < left < 150
    reply = bank.search("retry uploads")
    assert any(f"{left} memories" in note for note in reply.notes)
    assert reply.total_found >= 100
    bank.close()
    again = open_bank.with_embedder(Fragile("new"))
    assert again.reindex().embedded == left
    assert again.search("retry uploads").notes == ()


@requirement("RET-11")
def test_searches_go_on_during_a_reindex(open_bank):
    with open_bank.with_embedder(Fragile("old")) as bank:
        for i in range(150):
            bank.record(a_memory(title=f"upload {i}"))
    bank = open_bank.with_embedder(Fragile("new"))
    replies = []

    def ask():
        replies.append(bank.search("retry uploads", limit=10))

    def search_meanwhile(done, total):
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(20)

    bank.reindex(search_meanwhile)
    assert len(replies) >= 3
    assert all(len(reply) == 10 for reply in replies)


def test_a_vector_of_an_earlier_text_does_not_come_back_with_its_model(open_bank):
    """Old model, then new model and a changed text, then the old model again."""
    with open_bank.with_embedder(Fragile("old")) as bank:
        memory = bank.record(a_memory(title="zyzzyvas", description="attic", content="weevils"))
        for i in range(120):  # Enough that closing the bank writes an index file.
            bank.record(a_memory(title=f"upload {i}"))
        bank.embed_new()
        assert bank.search("zyzzyvas attic weevils").hits
    assert (open_bank.folder / "bank.db.old.index").exists()
    with open_bank.with_embedder(Fragile("new")) as bank:
        bank.reindex()
        bank.update(memory.id, title="Cake", description="baking", content="cool the sponge")
    bank = open_bank.with_embedder(Fragile("old"))
    assert bank.search("zyzzyvas attic weevils").hits == ()


# Fresh at once


@requirement("RET-13")
def test_a_question_that_was_asked_before_is_not_embedded_again(plain_bank):
    for _ in range(3):
        plain_bank.search("retry uploads")
    plain_bank.search("another")
    cache = plain_bank.statistics().query_cache
    assert plain(cache) == {"hits": 2, "misses": 2, "evictions": 0, "hit_rate": 0.5}


@requirement("RET-13")
def test_cached_questions_are_limited_in_number_and_time(open_bank, monkeypatch):
    def misses(questions, size=512, seconds=300.0):
        monkeypatch.setattr(vectors, "CACHE_SIZE", size)
        monkeypatch.setattr(vectors, "CACHE_SECONDS", seconds)
        bank = open_bank(settings=Settings(embed=Embed(model="hashed")))
        for question in questions:
            bank.search(question)
        return bank.statistics().process.query_cache.misses

    assert misses("aa", seconds=0.0) == 2
    assert misses("abab", size=1) == 4
    assert misses("abcbca", size=2) == 4
    assert misses("abab") == 2


@requirement(
    "RET-13",
    left="of more than 64 new ones only those that words find are found by meaning at once",
)
def test_a_new_memory_is_seen_by_the_very_next_search(plain_bank):
    for i in range(5):
        memory = plain_bank.record(a_memory(title=f"number {i}"))
        reply = plain_bank.search("retry uploads", limit=20, explain=True)
        parts = {hit.memory.id: hit.parts for hit in reply}
        assert "cosine" in parts[memory.id]


@requirement("RET-13")
def test_after_an_update_only_the_new_text_is_found(bank):
    memory = bank.record(a_memory(title="Cool the cake", description="baking", content="an hour"))
    assert bank.search("frosting a dessert").hits
    bank.update(memory.id, title="Index the column", description="SQL", content="B-tree")
    assert bank.search("frosting a dessert").hits == ()
    assert bank.search("cake baking").hits == ()
    assert bank.search("database lookup is slow, index it")[0].memory.title == "Index the column"
    bank.undo(memory.id)
    assert bank.search("frosting a dessert")[0].memory.title == "Cool the cake"


@requirement("RET-13")
def test_what_another_process_records_is_seen_at_once_too(open_bank):
    one, two = open_bank(), open_bank()
    assert two.search("retry uploads").hits == ()
    memory = one.record(a_memory())
    assert two.search("retry uploads")[0].memory.id == memory.id
    one.archive(memory.id)
    assert two.search("retry uploads").hits == ()


# Recommendations


@requirement("RET-14")
def test_a_recommendation_knows_the_task_the_strategy_and_the_evidence(bank):
    best = bank.record(
        a_memory(title="Add an index", description="When a query is slow", domain="databases",
                 content="EXPLAIN shows a scan; create an index on the column.")
    )  # fmt: skip
    bank.record(a_warning(title="Do not index every column", domain="databases"))
    for session, succeeded in (("1", True), ("2", True), ("3", False), ("3", False)):
        bank.outcome(best.id, succeeded=succeeded, session=session)
    bank.feedback(best.id, helpful=True)
    trusted = bank.get(best.id).confidence  # That it was found counts afterwards.
    advice = bank.recommend("why is the query on table users_v2 slow, no index on the column?")
    assert advice.strategy.id == best.id
    assert advice.confidence == trusted
    assert advice.successful_uses == 2
    assert advice.domain == "databases"
    assert advice.keywords[0] == "users_v2"
    assert {"query", "slow", "index"} <= set(advice.keywords)
    assert "2 of 3 tasks that used it succeeded" in advice.reasoning
    assert "1 of 1 ratings call it helpful" in advice.reasoning
    assert f"{advice.confidence:.2f}" in advice.reasoning
    assert advice.reasoning.endswith(".")


@requirement("RET-14")
def test_without_evidence_or_without_an_answer_a_recommendation_says_so(bank):
    assert bank.recommend("bake a cake").strategy is None
    assert "relevant enough" in bank.recommend("bake a cake").reasoning
    library(bank)
    advice = bank.recommend("frosting runs off my dessert")
    assert advice.strategy.title == "Cool the cake before icing it"
    assert advice.successful_uses == 0
    assert "nobody has reported an outcome yet" in advice.reasoning


@requirement("RET-14")
def test_a_failure_is_a_warning_and_never_the_strategy(bank):
    warning = bank.record(a_warning())
    advice = bank.recommend("workers update the same table and wait for each other")
    assert advice.strategy is None
    assert [w.id for w in advice.warnings] == [warning.id]


def test_a_search_that_asks_for_nonsense_is_refused_by_name(plain_bank):
    for options, name in (
        ({"limit": 0}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"min_confidence": float("nan")}, "min_confidence"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"session": ""}, "session"),
    ):
        with pytest.raises(InvalidInput, match=name):
            plain_bank.search("x", **options)
    with pytest.raises(InvalidInput, match="query"):
        plain_bank.search("  ")


def test_the_ledger_knows_how_many_rows_full_text_counts_over(plain_bank):
    reading = plain_bank.store.ledger.read()
    assert reading.word_rows() == 0
    ids = [plain_bank.record(a_memory(title=f"upload {i}")).id for i in range(200)]
    plain_bank.update(ids[0], title="download")
    plain_bank.feedback(ids[1], helpful=True)
    plain_bank.forget(ids[2])
    assert reading.word_rows() == 199


def test_an_explanation_names_the_memory_that_another_one_repeats(plain_bank):
    for number in range(6):
        plain_bank.record(a_memory(title=f"Retry the upload {number % 2}"))
    reply = plain_bank.search("retry the upload", limit=3, explain=True)
    known = {memory.id for memory in plain_bank.memories()}
    repeated = [reason for _, reason in reply.dropped if reason.startswith("redundant with ")]
    assert repeated
    assert {reason.removeprefix("redundant with ") for reason in repeated} <= known
