"""The protocols `paper-shifted` and `paper-unseen`: how scores are corrected and chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.errors import InputError
from edgeformers.evaluation import (
    FunctionScorer,
    LinkTable,
    ScoreCorrection,
    ValidationPairs,
    evaluate_links,
)
from edgeformers.evaluation.popularity_correction import (
    SCALE_CANDIDATES,
    choose_correction,
    rank_corrected,
    spaced_batches,
)
from edgeformers.evaluation.ranking import BATCH
from tests.evaluation.problems import draw_problem, known_links

#: Two rare and two popular candidates (log-popularity 0 and 2); every query likes its own by 1.
POPULARITY = [0.0, 0.0, np.e**2 - 1, np.e**2 - 1]
SCORES = np.array([[1, 0, 2, 2], [0, 1, 2, 2], [0, 0, 3, 2], [0, 0, 2, 3]], np.float32)
SCORER = FunctionScorer(lambda rows: SCORES[rows % 4], 4)
EVERY = np.arange(4)


def validation(pairs, popularity=POPULARITY, seen=None):
    return ValidationPairs(
        queries=np.arange(pairs), positives=np.arange(pairs) % 4, popularity=popularity, seen=seen
    )


@pytest.mark.parametrize(
    ("shift", "ranks"),
    [
        (0.0, [3, 3, 1, 1]),
        (0.6, [3, 3, 1, 1]),
        (0.8, [1, 1, 1, 1]),
        (1.0, [1, 1, 1, 1]),
        (1.2, [1, 1, 3, 3]),
    ],
)
def test_shifted_ranks_by_hand(shift, ranks):
    # Who likes a rare one has deviation .829 and scores 1, 0 and twice 2 - 1.658 shift; who likes
    # a popular one has 1.299 and scores 0, 0, 3 - 2.598 shift and 2 - 2.598 shift.
    found = rank_corrected(
        SCORER, EVERY, EVERY, validation(4), ScoreCorrection(shift=shift), batch=4
    )
    assert found.tolist() == ranks


def test_the_best_shift_on_validation_is_chosen_and_used():
    many = validation(400)
    assert choose_correction(SCORER, many, batch=4) == ScoreCorrection(shift=0.8)
    protocols = ("paper", "paper-shifted")
    report = evaluate_links(SCORER, EVERY, protocols=protocols, validation=many)
    assert report.corrections["paper-shifted"] == ScoreCorrection(shift=0.8)
    assert report.ranks["paper"].tolist() == [3, 3, 1, 1]
    assert report.ranks["paper-shifted"].tolist() == [1, 1, 1, 1]


def test_nothing_is_corrected_on_few_pairs():
    assert choose_correction(SCORER, validation(4), batch=4) == ScoreCorrection()
    assert choose_correction(SCORER, validation(0), batch=4) == ScoreCorrection()


def test_nothing_is_corrected_if_it_does_not_help():
    liked = FunctionScorer(lambda rows: np.eye(4)[rows % 4], 4)
    assert choose_correction(liked, validation(400), batch=4) == ScoreCorrection()


def test_the_correction_does_not_depend_on_the_ranked_pairs():
    tuned = validation(400)
    asked = [np.array([0]), np.array([2, 3, 3]), np.tile(EVERY, 50)]
    reports = [
        evaluate_links(SCORER, one, queries=one, protocols=["paper-shifted"], validation=tuned)
        for one in asked
    ]
    assert {report.corrections["paper-shifted"].shift for report in reports} == {0.8}


@given(st.integers(0, 10_000))
def test_without_a_shift_ranks_equal_those_of_paper(seed):
    scores, row, positive, *_ = draw_problem(seed)
    scorer = FunctionScorer(lambda rows: scores[rows], scores.shape[1])
    popularity = np.arange(scores.shape[1])
    tuned = ValidationPairs(queries=row[:0], positives=positive[:0], popularity=popularity)
    protocols = ("paper", "paper-shifted", "full", "sampled")
    known = known_links(row, positive, len(scores))
    report = evaluate_links(
        scorer, positive, queries=row, known=known, protocols=protocols, validation=tuned
    )
    assert report.ranks["paper-shifted"].tolist() == report.ranks["paper"].tolist()
    plain = evaluate_links(scorer, positive, queries=row, known=known)
    for protocol in ("paper", "full", "sampled"):
        assert report.ranks[protocol].tolist() == plain.ranks[protocol].tolist()
    assert report.metrics("paper-shifted") == report.metrics("paper")


def test_the_correction_does_not_depend_on_the_scale_of_scores():
    random = np.random.default_rng(0)
    scores = random.standard_normal((50, 2 * SCALE_CANDIDATES)).astype(np.float32)
    links = random.integers(0, 99, scores.shape[1])
    rows, columns = np.arange(50), random.integers(0, scores.shape[1], 50)
    tuned = ValidationPairs(queries=rows, positives=columns, popularity=links)
    size = np.float32(2) ** random.integers(-9, 9, (50, 1))  # of two, so that nothing is rounded
    plain, scaled = (
        FunctionScorer(table.__getitem__, len(links)) for table in (scores, scores * size)
    )
    found = rank_corrected(plain, rows, columns, tuned, ScoreCorrection(shift=1.0))
    assert (
        rank_corrected(scaled, rows, columns, tuned, ScoreCorrection(shift=1.0)).tolist()
        == found.tolist()
    )


def test_validation_batches_are_whole_and_evenly_spaced():
    assert spaced_batches(250).tolist() == list(range(250))
    assert spaced_batches(0).tolist() == []
    chosen = spaced_batches(1_000, batch=100, limit=300)
    assert chosen.tolist() == [*range(100), *range(400, 500), *range(900, 1000)]
    assert len(spaced_batches(10**6)) == 10_000
    assert set(spaced_batches(10**6) // BATCH) >= {0, 9_999}


def test_missing_validation_data_is_reported():
    with pytest.raises(InputError, match="validation"):
        evaluate_links(SCORER, EVERY, protocols=["paper-shifted"])
    with pytest.raises(InputError, match="popularity"):
        choose_correction(SCORER, validation(4, POPULARITY[:3]))


#: Who likes a rare one is linked to both popular candidates already, and likes them best.
LIKES_RARE = np.flatnonzero(np.arange(400) % 4 < 2)
SEEN = LinkTable.from_pairs(np.repeat(LIKES_RARE, 2), np.tile([2, 3], len(LIKES_RARE)), 400)


def test_seen_candidates_are_ranked_last_in_their_own_order():
    tuned = validation(4, seen=SEEN)
    found = rank_corrected(SCORER, EVERY, EVERY, tuned, ScoreCorrection(seen_last=True), batch=4)
    assert found.tolist() == [1, 1, 1, 1]
    again = LinkTable.from_pairs([0, 0], [0, 2], 4)  # the right one was linked before, too
    tuned = validation(4, seen=again)
    found = rank_corrected(SCORER, EVERY, EVERY, tuned, ScoreCorrection(seen_last=True), batch=4)
    assert found.tolist() == [4, 3, 1, 1]


def test_validation_decides_whether_seen_candidates_are_ranked_last():
    fit = choose_correction(SCORER, validation(400, seen=SEEN), unseen=True, batch=4)
    assert fit.seen_last or fit.shift == 0.8  # either puts the right ones first
    flat = [0.0] * 4
    assert choose_correction(SCORER, validation(400, flat, SEEN), unseen=True, batch=4).seen_last
    many = np.arange(400)
    every = LinkTable.from_pairs(many, many % 4, 400)  # all that is asked for was there before
    assert not choose_correction(
        SCORER, validation(400, flat, every), unseen=True, batch=4
    ).seen_last
    protocols = ("paper-shifted", "paper-unseen")
    report = evaluate_links(
        SCORER, EVERY, protocols=protocols, validation=validation(400, flat, SEEN)
    )
    assert report.corrections["paper-shifted"] == ScoreCorrection()
    assert report.corrections["paper-unseen"].seen_last
    assert report.ranks["paper-unseen"].tolist() == [1, 1, 1, 1]


def test_ranking_seen_candidates_last_needs_training_edges():
    with pytest.raises(InputError, match="seen"):
        choose_correction(SCORER, validation(4), unseen=True, batch=4)
