from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement

from reasonbank.embed.calibration import CALIBRATIONS, EmbeddingCalibration, calibration_for
from reasonbank.ledger.sqlite.fulltext import any_of
from reasonbank.search.rank import (
    SCOPE_WEIGHTS,
    Fusion,
    Ranking,
    RankingInputs,
    RankingWeights,
    fuse,
    rank,
)
from reasonbank.search.text import error_match, keywords, terms, terms_asked, tokens_in, words
from reasonbank.settings import Search

MINILM = CALIBRATIONS["all-MiniLM-L6-v2"]

CUTS = EmbeddingCalibration(model="test", threshold=0.2, sure=0.6)


def a_fusion(similarity: list[float], *, threshold: float = 0.0) -> Fusion:
    values = np.array(similarity, float)
    return Fusion(
        similarity=values,
        relevance=values,
        nearness=values,
        cosine=values / 2,
        bm25=np.zeros(len(values)),
        weight=0.5,
        features={},
        calibration=EmbeddingCalibration(model="test", threshold=threshold, near=0.55, same=0.995),
    )


def some_columns(count: int, **given: object) -> RankingInputs:
    columns: dict[str, object] = {
        "age_days": np.zeros(count),
        "error_match": np.zeros(count),
        "confidence": np.ones(count),
        "scope": np.ones(count),
        "consolidated": np.zeros(count, bool),
        **{name: np.asarray(value) for name, value in given.items()},
    }
    return RankingInputs(**columns)  # type: ignore[arg-type]


def ranked(similarity: list[float], limit: int = 10, **given: object) -> Ranking:
    return rank(a_fusion(similarity), some_columns(len(similarity), **given), limit=limit)


class TestComposite:
    @requirement("RET-3")
    def test_a_memory_as_old_as_the_half_life_has_exactly_half_the_recency(self):
        for half_life in (30.0, 7.0):
            result = rank(
                a_fusion([1.0]),
                some_columns(1, age_days=[half_life]),
                limit=1,
                half_life_days=half_life,
                weights=RankingWeights(similarity=0, recency=1, error_match=0),
            )
            assert result.scores[0] == 0.5

    @requirement("RET-3")
    def test_the_default_half_life_is_thirty_days(self):
        parts = ranked([1.0, 1.0], age_days=[30.0, 60.0]).explain()
        assert [part.recency for part in parts] == [0.5, 0.25]

    @requirement("RET-3")
    @pytest.mark.parametrize(
        ("similarity", "recency", "error", "composite"),
        [
            (1.0, 0.0, 0.0, 0.8),
            (0.0, 1.0, 0.0, 0.1),
            (0.0, 0.0, 1.0, 0.1),
            (0.5, 0.25, 0.9, 0.8 * 0.5 + 0.1 * 0.25 + 0.1 * 0.9),
        ],
    )
    def test_the_composite_is_the_weighted_sum_of_its_parts(
        self, similarity, recency, error, composite
    ):
        age = [-30.0 * math.log2(recency) if recency else math.inf]
        part = ranked([similarity], age_days=age, error_match=[error]).explain()[0]
        assert (part.similarity, part.recency, part.error_match) == (similarity, recency, error)
        assert part.composite == pytest.approx(composite)

    @requirement("RET-3")
    @pytest.mark.parametrize("factor", [0.01, 1, 7])
    def test_weights_are_shares_of_their_sum(self, factor):
        weights = RankingWeights(similarity=5 * factor, recency=3 * factor, error_match=2 * factor)
        columns = some_columns(1, age_days=[60.0], error_match=[0.9])
        result = rank(a_fusion([0.6]), columns, limit=1, weights=weights)
        assert result.scores[0] == pytest.approx(0.5 * 0.6 + 0.3 * 0.25 + 0.2 * 0.9)

    def test_the_defaults_are_those_of_the_settings(self):
        chosen = Search()
        assert RankingWeights() == RankingWeights(
            similarity=chosen.similarity, recency=chosen.recency, error_match=chosen.error_match
        )
        columns = some_columns(
            3, age_days=[40.0, 50.0, 0.0], vectors=_units([[1, 0], [1, 0], [0, 1]])
        )
        said = rank(
            a_fusion([0.9, 0.8, 0.2]),
            columns,
            limit=3,
            half_life_days=chosen.half_life_days,
            diversity=chosen.diversity,
        )
        assert rank(a_fusion([0.9, 0.8, 0.2]), columns, limit=3).explain() == said.explain()

    @requirement("RET-3")
    @pytest.mark.parametrize(
        "weights",
        [
            {"similarity": 0, "recency": 0, "error_match": 0},
            {"similarity": -1},
            {"recency": math.inf},
            {"recency": math.nan},
        ],
    )
    def test_weights_that_mean_nothing_are_refused(self, weights):
        with pytest.raises(ValueError, match="weights"):
            RankingWeights(**weights)

    @requirement("RET-3")
    @settings(deadline=None)
    @given(
        data=st.lists(
            st.tuples(*[st.floats(allow_nan=True, allow_infinity=True, width=32)] * 5),
            min_size=0,
            max_size=30,
        )
    )
    def test_every_part_stays_between_zero_and_one_whatever_comes_in(self, data):
        cosine, bm25, age, error, confidence = (
            np.array([row[i] for row in data], float) for i in range(5)
        )
        fusion = fuse("find the flaky test", cosine, bm25, MINILM, rows=100)
        columns = some_columns(len(data), age_days=age, error_match=error, confidence=confidence)
        result = rank(fusion, columns, limit=50, threshold=0.0)
        assert len(result.order) == len(data)
        for part in result.explain():
            for value in (
                part.similarity,
                part.relevance,
                part.recency,
                part.error_match,
                part.confidence,
                part.scope,
                part.composite,
                part.lexical_weight,
            ):
                assert 0.0 <= value <= 1.0

    def test_a_memory_from_the_future_is_as_recent_as_one_of_now(self):
        assert ranked([1.0], age_days=[-3.0]).explain()[0].recency == 1.0

    def test_no_candidates_give_no_order(self):
        result = rank(
            fuse("anything", np.array([]), np.array([]), MINILM, rows=0),
            some_columns(0, vectors=np.zeros((0, 384), np.float32)),
            limit=5,
        )
        assert result.order.size == 0 and result.explain() == []

    def test_a_candidate_that_was_ruled_out_never_returns(self):
        fusion = replace(a_fusion([0.9, 0.8]), similarity=np.array([-1.0, 0.8]))
        result = rank(fusion, some_columns(2), limit=5, threshold=0.0)
        assert result.order.tolist() == [1] and result.relevant == 1
        assert result.explain()[1].dropped == "ruled out"


class TestMultipliers:
    @requirement("RET-4")
    def test_confidence_scope_and_consolidation_multiply_the_composite(self):
        part = ranked([0.9], confidence=[0.5], scope=[0.8], consolidated=[True]).explain()[0]
        assert (part.confidence, part.scope, part.boost) == (0.5, 0.8, 1.2)
        assert part.composite == pytest.approx(0.8 * 0.9 + 0.1 * 1.0)
        assert part.score == pytest.approx(part.composite * 0.5 * 0.8 * 1.2)

    @pytest.mark.parametrize(
        ("fits", "boost"),
        [(0.8, 1.2), (0.78, 1.2**0.75), (0.76, 1.2**0.5), (0.72, 1.0), (0.4, 1.0)],
    )
    def test_nothing_is_left_of_the_boost_a_tenth_behind_the_best(self, fits, boost):
        parts = ranked([0.8, fits], consolidated=[False, True]).explain()
        assert {part.candidate: part.boost for part in parts} == {0: 1.0, 1: pytest.approx(boost)}

    def test_the_boost_is_whole_where_nothing_relevant_fits_better(self):
        columns = some_columns(2, consolidated=[True, False])
        fusion = replace(a_fusion([0.9, 0.8]), relevance=np.array([0.1, 0.7]))
        assert rank(fusion, columns, limit=2, threshold=0.5).explain()[1].boost == 1.2
        assert rank(fusion, columns, limit=2, threshold=0.95).explain()[0].boost == 1.2

    def test_experience_is_added_to_the_similarity_before_it_is_weighed(self):
        part = ranked([0.5], fit=[0.25]).explain()[0]
        assert (part.similarity, part.fit) == (0.5, 0.25)
        assert part.composite == pytest.approx(0.8 * 0.75 + 0.1)

    @requirement("RET-4")
    @pytest.mark.parametrize("fits", [0.9, 0.89, 0.87])
    def test_a_merged_memory_comes_first_among_near_equals(self, fits):
        result = ranked([0.9, fits], consolidated=[False, True])
        assert result.order.tolist() == [1, 0]
        assert 1.0 < result.explain()[0].boost <= 1.2

    @requirement("RET-4")
    @pytest.mark.parametrize("fits", [0.7, 0.5, 0.3])
    def test_a_merged_memory_does_not_push_away_one_that_fits_better(self, fits):
        result = ranked([0.9, fits], consolidated=[False, True])
        assert result.order.tolist() == [0, 1]

    @requirement("RET-4")
    def test_the_boost_of_a_merged_memory_can_be_set(self):
        columns = some_columns(2, consolidated=[False, True])
        for boost, order in ((1.5, [1, 0]), (1.0, [0, 1])):
            result = rank(a_fusion([0.9, 0.89]), columns, limit=2, consolidated=boost)
            assert result.order.tolist() == order

    @requirement("RET-4")
    def test_among_equals_the_project_comes_before_the_team_and_the_team_before_the_org(self):
        scopes = [SCOPE_WEIGHTS[scope] for scope in ("org", "project", "team")]
        assert ranked([0.9] * 3, scope=scopes).order.tolist() == [1, 2, 0]


class TestDiversity:
    @requirement("RET-5")
    def test_two_near_identical_memories_do_not_crowd_out_a_third(self):
        vectors = _units([[1, 0, 0], [1, 0.02, 0], [0, 1, 0]])
        result = ranked([0.9, 0.89, 0.3], limit=2, vectors=vectors, confidence=[1, 1, 0.2])
        assert result.order.tolist() == [0, 2]

    @requirement("RET-5")
    @settings(deadline=None)
    @given(
        copies=st.integers(2, 150),
        weakest=st.floats(0.01, 1.0),
        limit=st.integers(2, 12),
        seed=st.integers(0, 2**16),
    )
    def test_no_number_of_copies_crowds_out_something_else(self, copies, weakest, limit, seed):
        rng = np.random.default_rng(seed)
        one, other = _units(rng.normal(size=(2, 384)))
        vectors = _units(one + 0.001 * rng.normal(size=(copies + 1, 384)))
        vectors[-1] = other
        result = ranked([1.0] * copies + [weakest], limit=limit, vectors=vectors)
        assert copies in result.order.tolist()

    @requirement("RET-5")
    def test_lambda_one_looks_at_scores_only(self):
        vectors = _units([[1, 0], [1, 0], [0, 1]])
        columns = some_columns(3, vectors=vectors)
        result = rank(a_fusion([0.9, 0.8, 0.7]), columns, limit=2, diversity=1.0)
        assert result.order.tolist() == [0, 1]

    @requirement("RET-5")
    def test_memories_that_merely_share_a_subject_keep_their_order(self):
        vectors = _units([[1, 0], [1, 0.5], [1, 0.9]])
        result = ranked([0.9, 0.8, 0.7], vectors=vectors)
        assert result.order.tolist() == [0, 1, 2]

    @requirement("RET-5")
    @pytest.mark.parametrize("cosine", [0.75, 0.82, 0.9, 0.94, 0.98])
    def test_of_five_places_paraphrases_leave_one_to_another_that_is_surely_relevant(self, cosine):
        vectors = _alike(6, cosine, others=1)
        result = ranked([0.9, 0.89, 0.88, 0.87, 0.86, 0.85, 0.6], limit=5, vectors=vectors)
        assert result.order.tolist() == [0, 1, 2, 3, 6]
        why = {part.candidate: part.dropped for part in result.explain(list("abcdefg"))}
        assert why[4].startswith("redundant with ") and why[5] == "beyond the limit"

    @requirement("RET-5")
    def test_paraphrases_leave_no_place_to_what_is_hardly_relevant(self):
        vectors = _alike(5, 0.95, others=1)
        for other, last in ((0.22, 4), (0.23, 5)):
            result = ranked([0.9, 0.89, 0.88, 0.87, 0.86, other], limit=5, vectors=vectors)
            assert result.order.tolist() == [0, 1, 2, 3, last]

    @requirement("RET-5")
    def test_where_the_question_itself_is_a_paraphrase_its_like_are_what_was_asked_for(self):
        vectors = _alike(6, 0.85, others=1)
        similarity = [0.9, 0.89, 0.88, 0.87, 0.86, 0.85, 0.6]
        fusion = replace(a_fusion(similarity), cosine=np.full(7, 0.86))
        result = rank(fusion, some_columns(7, vectors=vectors), limit=5)
        assert result.order.tolist() == [0, 1, 2, 3, 4]

    @requirement("RET-5")
    def test_where_there_is_room_paraphrases_keep_their_order(self):
        vectors = _alike(3, 0.95, others=4)
        result = ranked([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], limit=5, vectors=vectors)
        assert result.order.tolist() == [0, 1, 2, 3, 4]

    @requirement("RET-5")
    def test_no_number_of_paraphrases_hides_another_that_is_surely_relevant(self):
        vectors = _alike(200, 0.92, others=1)
        result = ranked([0.9] * 200 + [0.7], limit=5, vectors=vectors)
        assert result.order.tolist() == [0, 1, 2, 3, 200]

    @requirement("RET-5")
    def test_every_step_of_lambda_changes_the_answer_and_less_is_more_diverse(self):
        vectors = _alike(5, 0.95, others=6)
        similarity = [0.9, 0.89, 0.88, 0.87, 0.86, 0.7, 0.66, 0.65, 0.64, 0.63, 0.62]
        lists = {}
        for diversity in (0.0, 0.17, 0.25, 0.5, 0.9):
            columns = some_columns(len(similarity), vectors=vectors)
            result = rank(a_fusion(similarity), columns, limit=5, diversity=diversity)
            lists[diversity] = result.order.tolist()
        said_again = [sum(i < 5 for i in chosen) for chosen in lists.values()]
        assert said_again == [1, 2, 3, 4, 5]

    @requirement("RET-5")
    @settings(deadline=None)
    @given(seed=st.integers(0, 2**16), count=st.integers(2, 40), limit=st.integers(1, 10))
    def test_lambda_zero_is_never_less_diverse_than_lambda_one(self, seed, count, limit):
        rng = np.random.default_rng(seed)
        vectors = _units(rng.normal(size=(count, 8)) + 2 * rng.normal(size=8))
        similarity = np.sort(rng.uniform(0.3, 1.0, count))[::-1].tolist()
        columns = some_columns(count, vectors=vectors)
        most, least = (
            rank(a_fusion(similarity), columns, limit=limit, diversity=diversity).order
            for diversity in (0.0, 1.0)
        )
        assert len(most) == len(least) == min(limit, count) and most[0] == least[0]
        assert _closest(vectors[most[:2]]) <= _closest(vectors[least[:2]]) + 1e-6

    def test_a_copy_pays_for_the_room_it_takes_and_says_so(self):
        vectors = _units([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        columns = some_columns(4, vectors=vectors)
        parts = rank(a_fusion([0.9, 0.85, 0.8, 0.1]), columns, limit=1, diversity=0.5).explain()
        paid = {part.candidate: part.mmr_penalty for part in parts}
        whole = 0.5 * (0.8 * 0.9 + 0.1)
        assert paid == pytest.approx({0: 0.0, 1: whole * (1 + 0.5**8), 2: 0.0, 3: 0.0}, abs=1e-5)
        assert parts[1].dropped == "redundant with 0"

    def test_of_two_copies_one_is_redundant_and_the_first_of_several_is_to_blame(self):
        for count, limit, kept in ((2, 1, [0]), (3, 2, [0, 1])):
            result = ranked([0.9] * count, limit=limit, vectors=_units([[1, 0]] * count))
            assert result.order.tolist() == kept
            assert result.explain(list("abc"))[-1].dropped == "redundant with a"

    def test_a_copy_of_the_second_comes_after_everything_else_and_none_copies_itself(self):
        vectors = _units([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
        result = ranked([0.9, 0.8, 0.7, 0.1], limit=3, vectors=vectors)
        assert result.order.tolist() == [0, 1, 3]
        assert [part.mmr_penalty for part in result.explain()[:3]] == [0.0, 0.0, 0.0]

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_of_nothing_returns_nothing(self, limit):
        result = ranked([0.9, 0.8], limit=limit, vectors=_units([[1, 0], [1, 0]]))
        assert result.order.tolist() == [] and result.relevant == 2

    def test_copies_are_still_returned_when_there_is_room(self):
        result = ranked([0.9, 0.9, 0.1], limit=3, vectors=_units([[1, 0], [1, 0], [0, 1]]))
        assert result.order.tolist() == [0, 2, 1]

    def test_memories_without_vectors_are_nobodys_duplicates(self):
        result = ranked([0.9, 0.8, 0.7], limit=2, vectors=np.zeros((3, 384), np.float32))
        assert result.order.tolist() == [0, 1]


def _alike(count: int, cosine: float, *, others: int) -> np.ndarray:
    """So many paraphrases, each pair with this cosine, and others at a right angle to all."""
    size = count + 1 + others
    rows = np.zeros((count + others, size))
    rows[:count, 0] = cosine**0.5
    rows[range(count), range(1, count + 1)] = (1 - cosine) ** 0.5
    rows[range(count, count + others), range(count + 1, size)] = 1.0
    return rows.astype(np.float32)


def _closest(vectors: np.ndarray) -> float:
    return float((vectors @ vectors.T - 2 * np.eye(len(vectors))).max())


def _units(rows: object) -> np.ndarray:
    vectors = np.asarray(rows, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class TestExplain:
    @requirement("RET-8")
    def test_every_part_of_the_score_is_shown(self):
        fusion = fuse("a", np.array([0.6]), np.array([2.0]), MINILM, rows=50)
        part = rank(fusion, some_columns(1), limit=1).explain()[0]
        assert part.cosine == pytest.approx(0.6)
        assert part.distance == pytest.approx(math.sqrt(2 - 2 * 0.6))
        assert part.bm25 == 2.0
        assert part.similarity == pytest.approx(float(fusion.similarity[0]))
        assert part.dropped is None and part.position == 0

    @requirement("RET-8")
    def test_each_dropped_candidate_says_why(self):
        fusion = a_fusion([0.9, 0.9, 0.8, 0.7, 0.1], threshold=0.31)
        vectors = _units([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        result = rank(fusion, some_columns(5, vectors=vectors), limit=2)
        why = {part.candidate: part.dropped for part in result.explain(list("abcde"))}
        assert why == {
            0: None,
            2: None,
            1: "redundant with a",
            3: "beyond the limit",
            4: "nearness 0.10 is below the threshold 0.31",
        }

    def test_the_dropped_follow_by_score_and_equals_in_the_order_they_came(self):
        similarity = [0.3, 0.9, 0.5] + [0.4] * 30
        shown = ranked(similarity, limit=1).explain()
        assert [part.candidate for part in shown] == [1, 2, *range(3, 33), 0]
        assert ranked(similarity, limit=33).order.tolist() == [1, 2, *range(3, 33), 0]

    def test_on_the_threshold_is_good_enough(self):
        fusion = a_fusion([0.5, 0.5, 0.0], threshold=0.5)
        why = [part.dropped for part in rank(fusion, some_columns(3), limit=1).explain()]
        assert why == [None, "beyond the limit", "nearness 0.00 is below the threshold 0.50"]

    def test_the_share_of_full_text_is_shown_where_there_is_a_cosine(self):
        fusion = replace(a_fusion([0.9, 0.8]), cosine=np.array([0.4, np.nan]))
        assert [p.lexical_weight for p in rank(fusion, some_columns(2), limit=2).explain()] == [
            0.5,
            1.0,
        ]

    @requirement("RET-8")
    def test_an_unknown_cosine_is_shown_as_unknown(self):
        fusion = fuse("a", np.array([np.nan]), np.array([2.0]), MINILM, rows=50)
        part = rank(fusion, some_columns(1), limit=1, threshold=0.0).explain()[0]
        assert part.cosine is None and part.distance is None and part.lexical_weight == 1.0


class TestAbstention:
    @requirement("RET-9")
    def test_unrelated_candidates_are_not_returned(self):
        fusion = fuse(
            "replace the gearbox oil", np.array([0.12, 0.08]), np.zeros(2), MINILM, rows=1000
        )
        result = rank(fusion, some_columns(2), limit=5)
        assert result.order.size == 0 and result.relevant == 0

    @requirement("RET-9")
    def test_a_paraphrase_is_returned_without_a_word_in_common(self):
        fusion = fuse("the app crashes", np.array([0.7, 0.1]), np.zeros(2), MINILM, rows=1000)
        assert rank(fusion, some_columns(2), limit=5).order.tolist() == [0]

    @requirement("RET-9")
    def test_each_model_has_its_own_threshold_and_a_build_of_it_the_same(self):
        assert calibration_for("all-MiniLM-L6-v2+int8") is MINILM
        assert calibration_for("hashed-384").model == "hashed-384"
        assert calibration_for("some-model-of-tomorrow").threshold > 0
        assert all(calibration.model == name for name, calibration in CALIBRATIONS.items())
        assert any(c.sure for c in CALIBRATIONS.values())

    @requirement("RET-9")
    def test_what_lies_between_the_cuts_comes_last_and_is_weak(self):
        fusion = replace(a_fusion([0.5, 0.9, 0.3, 0.1]), calibration=CUTS)
        result = rank(fusion, some_columns(4, scope=[1.0, 0.5, 1.0, 1.0]), limit=5)
        assert result.order.tolist() == [1, 0, 2]
        assert result.weak[result.order].tolist() == [False, True, True]
        assert result.relevant == 3

    @requirement("RET-9")
    def test_what_fits_better_than_all_that_is_sure_is_no_weaker(self):
        """Nor is it kept from who did not ask; a threshold that somebody set is kept to."""
        fusion = replace(a_fusion([0.7, 0.5, 0.4]), calibration=CUTS)
        fusion = replace(fusion, relevance=np.array([0.5, 0.9, 0.5]))
        for sure_only, order in ((False, [0, 1, 2]), (True, [0, 1])):
            result = rank(fusion, some_columns(3), limit=5, sure_only=sure_only)
            assert result.order.tolist() == order
            assert result.weak.tolist() == [False, False, True]
        assert rank(fusion, some_columns(3), limit=5, threshold=0.6).order.tolist() == [1]

    @requirement("RET-9")
    def test_who_did_not_ask_gets_only_what_is_surely_relevant(self):
        fusion = replace(a_fusion([0.5, 0.9, 0.1]), calibration=CUTS)
        result = rank(fusion, some_columns(3), limit=5, sure_only=True)
        assert (result.order.tolist(), result.relevant) == ([1], 1)
        reasons = [part.dropped for part in result.explain()]
        assert reasons == [
            None,
            "relevance 0.50 is below the threshold 0.60",
            "relevance 0.10 is below the threshold 0.60",
        ]

    @requirement("RET-9")
    def test_a_weak_answer_never_takes_the_place_of_a_sure_one(self):
        fusion = replace(a_fusion([0.5, 0.9]), calibration=CUTS)
        columns = some_columns(2, scope=[1.0, 0.5], vectors=_units([[1, 0], [0, 1]]))
        assert rank(fusion, columns, limit=1).order.tolist() == [1]

    @requirement("RET-9")
    def test_what_has_failed_is_not_sure_beside_something_that_scores_more(self):
        """How well it reads does not set aside how it went."""
        fusion = replace(a_fusion([0.5, 0.9, 0.8]), calibration=CUTS)
        result = rank(fusion, some_columns(3, confidence=[0.8, 0.2, 0.8]), limit=5)
        assert result.order.tolist() == [2, 0, 1]
        assert result.weak.tolist() == [True, True, False]

    @requirement("RET-9")
    def test_an_answer_has_to_stand_out_of_its_bank(self):
        """The same cosine is an answer where nothing else is near, and none in a crowd."""
        none = np.zeros(30)
        alone = fuse("red", np.array([0.45, *none[1:] + 0.05]), none, MINILM, rows=1000)
        crowd = fuse("red", np.array([0.45, *none[1:] + 0.43]), none, MINILM, rows=1000)
        assert alone.relevance[0] >= MINILM.sure > crowd.relevance[0]

    @requirement("RET-9")
    @pytest.mark.parametrize("times", [1, 2, 5])
    def test_a_lesson_that_was_learned_five_times_is_no_crowd(self, times):
        cosine = np.array([0.45] * times + [0.05] * 20)
        said = fuse("red", cosine, np.zeros(len(cosine)), MINILM, rows=1000)
        assert (said.relevance[:times] >= MINILM.sure).all()
        only = fuse("red", cosine[:times], np.zeros(times), MINILM, rows=1000)
        assert (only.relevance >= MINILM.sure).all()

    @requirement("RET-9")
    def test_of_few_memories_less_is_near_by_chance(self):
        one, many = (
            fuse("red", np.array([0.3, *[0.0] * rest]), np.zeros(1 + rest), MINILM, rows=1 + rest)
            for rest in (0, 11)
        )
        assert one.relevance[0] >= MINILM.sure > many.relevance[0]

    @requirement("RET-9")
    def test_of_a_model_that_nobody_measured_the_scale_is_told_by_the_candidates(self):
        """All its cosines are high, as of some models behind an API."""
        unknown = calibration_for("some-model-of-tomorrow")
        rest = np.linspace(0.70, 0.75, 30)
        own = fuse("red", np.array([0.88, *rest]), np.zeros(31), unknown, rows=1000)
        foreign = fuse("red", np.array([0.76, *rest]), np.zeros(31), unknown, rows=1000)
        assert own.relevance[0] >= unknown.sure > foreign.relevance[0]
        closer = np.linspace(0.700, 0.712, 12)
        foreign = fuse("red", np.array([0.715, *closer]), np.zeros(13), unknown, rows=13)
        assert unknown.sure > foreign.relevance[0]

    @requirement("RET-9")
    def test_of_such_a_model_too_nothing_is_mentioned_that_is_no_nearer_than_the_rest(self):
        unknown = calibration_for("some-model-of-tomorrow")
        rest = np.linspace(0.70, 0.73, 30)
        for best, mentioned in ((0.735, 0), (0.88, 1)):
            fusion = fuse("red", np.array([best, *rest]), np.zeros(31), unknown, rows=1000)
            assert rank(fusion, some_columns(31), limit=5).relevant == mentioned

    def test_the_threshold_can_be_overridden(self):
        fusion = a_fusion([0.2, 0.1], threshold=0.5)
        assert rank(fusion, some_columns(2), limit=5, threshold=0.15).order.tolist() == [0]


class TestFusion:
    @requirement("RET-2")
    def test_without_an_embedding_the_full_text_decides(self):
        unknown = np.full(3, np.nan)
        fusion = fuse("red green", unknown, np.array([1.0, 9.0, 4.0]), MINILM, rows=1000)
        assert np.argsort(-fusion.similarity).tolist() == [1, 2, 0]
        assert fusion.weight == 1.0

    def test_similarity_and_relevance_follow_their_formulas(self):
        scale = EmbeddingCalibration(model="test", threshold=0.3, unrelated=0.2, lexical=5.0)
        cosine, bm25 = np.array([0.7, 0.4, -0.3, np.nan]), np.array([3.0, 8.0, 0.0, 2.0])
        fusion = fuse("red green blue", cosine, bm25, scale, rows=1000)
        x = bm25 / (2.2 * math.log(999.5 / 1.5))
        dense = (cosine - 0.2) / 0.8
        peak = dense[0] - dense[:3].mean()
        weight = 5.0 * math.exp(-6 * peak) / 3**0.8
        words = weight * x**1.15
        words *= 0.45 * (1 - math.exp(-words.max() / 0.45)) / words.max()
        dense[3] = words[3]
        few = 0.06 * math.log(12 / 3)
        standing = dense + few + 1.35 * (x - 0.4).clip(0) / 3
        assert fusion.similarity.tolist() == pytest.approx(
            np.tanh((dense + words).clip(0)).tolist()
        )
        near = standing - few
        assert fusion.nearness.tolist() == pytest.approx(near.tolist())
        relevance = 1 / (1 + np.exp(-14 * (standing - 0.34)))
        assert fusion.relevance.tolist() == pytest.approx(relevance.tolist())
        assert fusion.weight == pytest.approx(words[0] / (dense + words)[0])
        assert fusion.features == pytest.approx(
            {
                "terms": 3,
                "peak": peak,
                "crowd": 0.0,
                "few": few,
                "rare_words": x[1],
                "lexical_weight": weight,
            }
        )

    def test_the_peak_is_that_of_the_best_ten(self):
        cosine = np.linspace(0.1, 0.65, 12)
        fusion = fuse("red", cosine, np.zeros(12), MINILM, rows=9)
        assert fusion.features["peak"] == pytest.approx(0.65 - cosine[2:].mean())

    def test_words_that_every_row_has_count_alike_by_how_many_match(self):
        """FTS5 gives each the least idf, 1e-6."""
        bm25 = np.array([2.2e-6 * 2, 2.2e-6])
        fusion = fuse("red green", np.zeros(2), bm25, MINILM, rows=50)
        assert fusion.features["rare_words"] == pytest.approx(2.0)
        assert fusion.similarity[0] > fusion.similarity[1] > 0

    @pytest.mark.parametrize(
        ("asked", "rows", "like"),
        [("red", 0, 100), ("red", 99, 100), ("red", 200, 200), ("E11000", 0, 3), ("E11000", 9, 9)],
    )
    def test_in_few_rows_no_word_is_rare_but_a_name(self, asked, rows, like):
        fusion = fuse(asked, np.zeros(1), np.array([0.5]), MINILM, rows=rows)
        ceiling = 2.2 * math.log((like - 0.5) / 1.5)
        assert fusion.features["rare_words"] == pytest.approx(0.5 / ceiling)

    def test_a_name_makes_the_plain_words_beside_it_no_rarer(self):
        """In a bank of thirteen memories, by how much of the question is a name."""
        asked = ("E11000", "E11000 index", "E11000 when the orders index is built again by night")
        rare = [
            fuse(each, np.zeros(1), np.array([0.5]), MINILM, rows=13).features["rare_words"]
            for each in (*asked, "the orders index is built again by night")
        ]
        assert rare == sorted(rare, reverse=True)
        assert rare[0] > 1.4 * rare[2] and rare[2] < 1.25 * rare[3]

    def test_a_question_without_words_weighs_like_one_of_a_single_word(self):
        fusion = fuse("?!", np.array([0.5]), np.zeros(1), MINILM, rows=9)
        assert fusion.features["terms"] == 1 and fusion.features["lexical_weight"] == 5.0

    def test_cosines_out_of_range_are_taken_for_the_nearest_that_is_in_it(self):
        fusion = fuse("red", np.array([1.5, -1.5]), np.zeros(2), MINILM, rows=9)
        assert fusion.features["peak"] == pytest.approx(1.0)
        assert fusion.similarity.tolist() == pytest.approx([math.tanh(1.0), 0.0])

    def test_a_score_that_is_no_number_is_no_match(self):
        fusion = fuse("red", np.zeros(3), np.array([np.inf, np.nan, -5.0]), MINILM, rows=9)
        assert fusion.bm25.tolist() == [0.0, 0.0, 0.0] and fusion.weight == 0.0

    def test_a_match_without_a_vector_counts_once_for_each_side_up_to_a_full_cosine(self):
        unknown, scale = np.full(2, np.nan), replace(MINILM, lexical=1.0, most=1e9)
        bm25 = 2.2 * math.log(999.5 / 1.5) * np.array([0.25, 2.0])
        fusion = fuse("red", unknown, bm25, scale, rows=1000)
        words = np.array([0.25, 2.0]) ** 1.15
        mixed = [2 * words[0], 1.0 + words[1]]
        assert fusion.similarity.tolist() == pytest.approx(np.tanh(mixed).tolist())
        assert fusion.features["peak"] == 0.0

    def test_the_share_of_full_text_is_whole_where_the_cosine_speaks_against(self):
        bm25 = np.array([2.2 * math.log(999.5 / 1.5)])
        assert fuse("red", np.array([-0.3]), bm25, MINILM, rows=1000).weight == 1.0

    def test_numbers_are_of_double_precision_whatever_comes_in(self):
        one = np.ones(1, np.float32)
        fusion = fuse("red", one, one, MINILM, rows=9)
        assert {fusion.cosine.dtype, fusion.bm25.dtype} == {np.dtype(np.float64)}

    def test_nothing_found_has_no_share_of_full_text(self):
        fusion = fuse("red", np.array([]), np.array([]), MINILM, rows=9)
        assert fusion.weight == 1.0 and fusion.features["rare_words"] == 0.0
        assert fuse("red", np.array([0.0]), np.array([0.0]), MINILM, rows=9).weight == 0.0

    def test_without_a_match_the_cosine_decides(self):
        fusion = fuse("red", np.array([0.2, 0.6, 0.4]), np.zeros(3), MINILM, rows=1000)
        assert np.argsort(-fusion.similarity).tolist() == [1, 2, 0]

    @settings(deadline=None)
    @given(
        cosine=st.lists(st.floats(-1, 1), min_size=2, max_size=20),
        seed=st.integers(0, 1000),
        rows=st.integers(0, 10**6),
    )
    def test_more_evidence_never_lowers_the_similarity(self, cosine, seed, rows):
        values = np.array(cosine)
        bm25 = np.random.default_rng(seed).exponential(5.0, len(values))
        order = np.argsort(values)
        bm25[order] = np.sort(bm25)
        similarity = fuse("one two three", values, bm25, MINILM, rows=rows).similarity[order]
        assert (np.diff(similarity) >= -1e-12).all()


class TestWords:
    def test_a_query_of_ten_megabytes_is_bounded(self):
        asked = terms("word1 " * 100 + "other" * 2_000_000)
        assert 0 < len(any_of(asked)) < 10_000

    def test_stop_words_are_left_out_unless_there_is_nothing_else(self):
        assert terms("How do I fix the flaky test?") == ("fix", "flaky", "test")
        assert terms("what is it") == ("what", "is", "it")

    def test_an_identifier_counts_word_by_word_and_as_a_phrase(self):
        assert terms("Call parse_config of libcrypto.1.dylib, parse_config!") == (
            *("call", "parse", "config", "parse config", "parseconfig"),
            *("libcrypto", "1", "dylib", "libcrypto 1 dylib"),
        )

    @requirement("RET-17")
    def test_another_spelling_of_a_name_is_looked_for_and_counts_as_no_further_word(self):
        assert terms("parseSchedule fails") == (
            *("parseschedule", "parse", "schedule", "parse schedule", "fails"),
        )
        assert terms("XMLHttpRequest") == (
            *("xmlhttprequest", "xml", "http", "request", "xml http request"),
        )
        assert terms_asked("parseSchedule fails") == 2
        assert terms_asked("parse_schedule fails") == 4
        assert terms_asked("?!") == 1

    @requirement("RET-17")
    def test_what_a_program_printed_counts_word_by_word(self):
        printed = "Caused by: com.acme.PoolClosed: pool is not open (at Pool.java:41)"
        assert words(printed, 99) == (
            *("caused", "by", "com", "acme", "poolclosed", "pool", "is", "not", "open"),
            *("at", "java", "41"),
        )
        assert words(printed, 2) == ("caused", "by")

    def test_a_question_is_read_so_far_and_no_further(self):
        assert len(terms(" ".join(f"word{n}" for n in range(100)))) == 48
        assert terms("w" * 100) == ("w" * 64,)
        assert (terms(" " * 19_999 + "x"), terms(" " * 20_000 + "x")) == (("x",), ())

    def test_punctuation_alone_asks_for_nothing(self):
        assert terms("?! ... --") == ()

    def test_keywords_are_content_words_with_identifiers_first(self):
        words = keywords("How do I make parse_config read the config file of the config dir?")
        assert words[0] == "parse_config" and words[1] == "config"
        assert not {"how", "do", "the", "of"} & set(words)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('see "parse_config", (std::vector).', ["parse_config", "std::vector", "see"]),
            ("HTTP Error E0502 in parseConfig", ["parseConfig", "E0502", "error", "http"]),
            (
                "Xerxes set foo_bar=x and alpha=beta _=_",
                ["foo_bar=x", "xerxes", "alpha", "beta", "set"],
            ),
            ("a ci b", ["ci"]),
            ("w" * 65, []),
            ("w" * 64, ["w" * 64]),
        ],
    )
    def test_keywords_keep_identifiers_whole_and_take_words_apart(self, text, words):
        assert keywords(text) == words

    @pytest.mark.parametrize(
        ("text", "first"),
        [
            # Often beats long, a name beats often, and equals come as they were said.
            ("elaborated pot pot", "pot"),
            ("go go go parse_configs", "parse_configs"),
            ("parse_file alteration alteration alteration", "alteration"),
            ("abbreviate abbreviated", "abbreviate"),
            ("pan pot", "pan"),
            ("pot pan", "pot"),
        ],
    )
    def test_the_most_useful_keyword_comes_first(self, text, first):
        assert keywords(text)[0] == first

    def test_eight_keywords_are_enough(self):
        assert len(keywords("one two three four five six seven eight nine ten")) == 8

    @given(st.text(max_size=200), st.integers(1, 20))
    def test_keywords_keep_to_the_limit_and_repeat_nothing(self, text, limit):
        words = keywords(text, limit)
        assert len(words) <= limit and len(set(words)) == len(words)

    @pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2)])
    def test_four_characters_are_a_token(self, text, tokens):
        assert tokens_in(text) == tokens

    def test_importing_the_module_does_not_load_numpy(self):
        code = "import sys, reasonbank.search.rank; assert 'numpy' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)


class TestErrorMatch:
    @requirement("RET-6")
    def test_naming_the_error_type_is_a_full_match(self):
        query = "Fix the ModuleNotFoundError in CI"
        assert error_match(query, "ModuleNotFoundError", None) == 1.0
        assert error_match(query, "modulenotfounderror", "something else") == 1.0

    @requirement("RET-6")
    def test_saying_the_error_in_plain_words_is_a_partial_match(self):
        assert 0.5 < error_match("module was not found", "ModuleNotFoundError", None) < 1.0

    @requirement("RET-6")
    def test_a_task_that_resembles_the_failure_pattern_matches(self):
        pattern = "pagination: only the first page was read"
        assert error_match("read every page of the pagination", None, pattern) > 0.5
        assert error_match("bake a cake", None, pattern) == 0.0

    @requirement("RET-6")
    def test_one_word_in_common_is_no_match(self):
        assert error_match("write a page", None, "only the first page was read twice") == 0.0

    @pytest.mark.parametrize(
        ("query", "match"),
        [
            ("alpha bravo charlie delta echo", 0.8),
            ("alpha bravo charlie delta", 0.8 * 4 / 5),
            ("alpha bravo charlie", 0.0),
        ],
    )
    def test_more_than_three_fifths_of_a_name_must_be_said(self, query, match):
        name = "AlphaBravoCharlieDeltaEchoError"
        assert error_match(query, name, None) == pytest.approx(match)

    def test_a_name_of_one_word_must_be_said_as_it_is_and_one_of_two_in_full(self):
        assert error_match("the key is gone", "KeyError", None) == 0.0
        assert error_match("that file exists", "FileExistsError", None) == 0.8
        assert error_match("that file", "FileExistsError", None) == 0.0

    def test_a_pattern_of_one_word_matches_by_it_and_one_of_two_by_both(self):
        assert error_match("a deadlock again", None, "deadlock") == 1.0
        assert error_match("a deadlock again", None, "deadlock rows") == 0.0
        assert error_match("rows in a deadlock", None, "deadlock rows") == 1.0

    @pytest.mark.parametrize("word", ["adding", "added", "adds", "add"])
    def test_a_word_is_known_by_its_stem_of_three_letters_at_least(self, word):
        assert error_match(word, None, "add") == error_match("add", None, word) == 1.0
        assert error_match("fixes", None, "fix") == 1.0
        assert error_match("ring", None, "red") == error_match("bus", None, "bu") == 0.0

    def test_part_of_a_longer_name_does_not_count_as_the_error_type(self):
        assert error_match("the IOErrorHandler class", "IOError", None) == 0.0

    def test_nothing_known_matches_nothing(self):
        assert error_match("anything", None, None) == 0.0 == error_match("", "", "")

    @given(st.text(), st.text(), st.text())
    def test_it_stays_between_zero_and_one(self, query, error_type, pattern):
        assert 0.0 <= error_match(query, error_type, pattern) <= 1.0
