import numpy as np
import pyarrow as pa
import pytest

from edgeformers.evaluation import metrics
from edgeformers.experiments.compare import RowComparison, compare_rows

N = 400
rng = np.random.default_rng(3)
LABELS = rng.integers(0, 3, N)


def guesses(share, seed):
    """Predictions of which about `share` are right."""
    random = np.random.default_rng(seed)
    wrong = (LABELS + random.integers(1, 3, N)) % 3
    return np.where(random.random(N) < share, LABELS, wrong)


def predictions(guess, part="test", edges=None, **more):
    edges = np.arange(N) if edges is None else edges
    columns = {"label": LABELS, "predicted": guess, **more}
    return pa.table({"part": [part] * N, "edge": edges, **columns})


def ranks(values, queries, part="test"):
    columns = {"query": queries, "full": np.asarray(values, np.float32)}
    return pa.table({"part": [part] * len(values), "edge": np.arange(len(values)), **columns})


@pytest.mark.parametrize("metric", ["macro_f1", "micro_f1"])
def test_the_difference_is_between_means_over_runs(metric):
    first, second = [guesses(0.9, 1), guesses(0.8, 2)], [guesses(0.5, 3)]
    found = compare_rows(
        [predictions(one) for one in first], [predictions(one) for one in second], "test", metric
    )
    f1 = getattr(metrics, metric)
    ours = np.mean([f1(LABELS, guess) for guess in first])
    assert found.value == pytest.approx(ours - f1(LABELS, second[0]))
    assert found.low < found.value < found.high
    assert (found.examples, found.seeds) == (N, 1)


def test_the_interval_of_macro_f1_matches_resampling_edges():
    a, b = guesses(0.7, 1), guesses(0.6, 2)
    found = compare_rows([predictions(a)], [predictions(b)], "test", "macro_f1")
    random, drawn = np.random.default_rng(9), []
    for _ in range(2000):
        rows = random.integers(0, N, N)
        truth = LABELS[rows]
        drawn.append(metrics.macro_f1(truth, a[rows]) - metrics.macro_f1(truth, b[rows]))
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.012)


def test_equal_rows_do_not_differ_significantly():
    guess = guesses(0.7, 1)
    found = compare_rows([predictions(guess)], [predictions(guess)], "test", "macro_f1")
    assert (found.value, found.p_value) == (0.0, 1.0)


def test_ranks_are_compared_by_query():
    queries = np.repeat(np.arange(50), 4)
    ours, theirs = np.full(200, 1.0), np.full(200, 2.0)
    found = compare_rows([ranks(ours, queries)], [ranks(theirs, queries)], "test", "full/mrr")
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    assert found.p_value < 0.001
    few = np.repeat([0, 1], 100)  # two queries can differ by chance, however many pairs they have
    found = compare_rows([ranks(ours, few)], [ranks(theirs, few)], "test", "full/mrr")
    assert found.p_value > 0.4


def test_seeds_that_disagree_widen_the_interval():
    theirs = [predictions(guesses(0.6, 2)) for _ in range(3)]
    alike = [predictions(guesses(0.7, 1)) for _ in range(3)]
    apart = [predictions(guesses(share, 1)) for share in (0.6, 0.7, 0.8)]
    calm, wild = (compare_rows(ours, theirs, "test", "macro_f1") for ours in (alike, apart))
    assert calm.seeds == wild.seeds == 3
    assert wild.value == pytest.approx(calm.value, abs=0.02)
    assert wild.high - wild.low > 2 * (calm.high - calm.low)
    assert calm.p_value < 0.05 < wild.p_value


def test_edges_of_a_source_are_resampled_together():
    right = np.repeat(np.arange(40) % 2 == 0, N // 40)  # half of the sources are all right
    ours, theirs = np.where(right, LABELS, (LABELS + 1) % 3), (LABELS + 2) % 3
    sources = np.repeat(np.arange(40), N // 40)
    by_edge, by_source = (
        compare_rows([predictions(ours, **more)], [predictions(theirs, **more)], "test", "micro_f1")
        for more in ({}, {"source": sources})
    )
    assert by_source.high - by_source.low > 2 * (by_edge.high - by_edge.low)


def test_a_fixed_row_does_not_limit_the_number_of_seeds():
    rows = {"fixed": [predictions(guesses(0.6, 2))]}
    rows["random"] = [predictions(guesses(0.7, seed)) for seed in (1, 3, 4)]
    found = RowComparison(rows, fixed=["fixed"]).compare(["random"], ["fixed"], "test", "micro_f1")
    assert found.seeds == 3


def test_the_mean_of_several_rows_is_compared():
    rows = {name: [predictions(guesses(share, 5))] for name, share in (("a", 0.9), ("b", 0.5))}
    rows["c"] = [predictions(guesses(0.6, 6))]
    f1 = {
        name: metrics.micro_f1(LABELS, runs[0]["predicted"].to_numpy())
        for name, runs in rows.items()
    }
    found = RowComparison(rows).compare(["a", "b"], ["c"], "test", "micro_f1")
    assert found.value == pytest.approx((f1["a"] + f1["b"]) / 2 - f1["c"])


def test_the_order_of_examples_does_not_matter():
    a, order = guesses(0.7, 1), rng.permutation(N)
    shuffled = predictions(a).take(pa.array(order))
    found = compare_rows([predictions(a)], [shuffled], "test", "micro_f1")
    assert found.value == 0.0


@pytest.mark.parametrize("metric", ["accuracy", "full/mrr"])
def test_incomparable_runs_are_not_compared(metric):
    one = [predictions(guesses(0.7, 1))]
    assert compare_rows(one, one, "test", metric) is None
    assert compare_rows(one, one, "val", "macro_f1") is None
    other = [predictions(guesses(0.7, 1), edges=np.arange(N) + 1)]
    assert compare_rows(one, other, "test", "macro_f1") is None
    assert compare_rows(one, [], "test", "macro_f1") is None


def test_a_protocol_missing_from_a_run_is_not_compared():
    queries, values = np.arange(4), np.array([1.0, 2.0, 1.0, 4.0])
    older = ranks(values, queries)
    newer = older.append_column("paper-shifted", pa.array(values))
    assert compare_rows([newer], [older], "test", "paper-shifted/mrr") is None
    assert compare_rows([newer], [newer], "test", "paper-shifted/mrr").value == 0.0
