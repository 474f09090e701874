"""`benchmarks.cutoffs`: the network as it was, and links pooled over cutoffs."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.cutoffs import Links, main, network_until, summarize
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.experiments.scoring import RANKS


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    config = PrepareConfig(tokenizer="train:500", positive_labels=["4", "5"], progress=False)
    return prepare_simulated(tmp_path_factory.mktemp("n") / "net", num_edges=600, config=config)


def test_the_network_as_it_was_has_the_first_edges(network, tmp_path):
    before = network_until(network, 0.6, tmp_path / "early")
    assert before.num_edges == 360
    assert before.times.max() < np.sort(network.times)[360]
    assert before.texts([7]) == network.texts([7])  # simulated edges are in the order of time
    assert before.is_positive.tolist() == network.is_positive[:360].tolist()
    assert np.array_equal(EdgeTextGraph.open(tmp_path / "early").src, before.src)


def arguments(network, out, *models):
    common = ["--network", str(network.path), "-o", str(out), "--seeds", "1", "--device", "cpu"]
    return [*common, "--cutoffs", "0.7", "1", "--models", *models]


def test_test_links_of_all_cutoffs_are_pooled(network, tmp_path, capsys):
    given = arguments(network, tmp_path, "popularity", "recent-popularity")
    for _ in range(2):  # the second time nothing is run
        main([*given, "--ours", "recent-popularity"])
        summary = json.loads((tmp_path / "chronological.json").read_text())
        assert summary["links"] > 5
        assert summary["baseline"] == "popularity"
        assert summary["rows"].keys() == {"popularity", "recent-popularity"}
        low, high = summary["ratios"]["all"]["interval"]
        assert low <= summary["ratios"]["all"]["ratio"] <= high
    assert "picked on validation" in capsys.readouterr().out


def test_rows_of_earlier_calls_with_other_settings_are_refused(network, tmp_path):
    tiny = ["--backbone", "scratch:2x32", "--set", "data.max_tokens=8", "links.ensemble=false"]
    main([*arguments(network, tmp_path, "edgeformer-n"), *tiny, "--epochs", "1"])
    popularity = arguments(network, tmp_path, "popularity")
    with pytest.raises(SystemExit, match="edgeformer-n-chronological"):
        main([*popularity, *tiny, "--epochs", "2"])
    assert not (tmp_path / "70" / "runs" / "popularity-chronological").exists()
    main([*popularity, *tiny, "--epochs", "1"])
    summary = json.loads((tmp_path / "chronological.json").read_text())
    assert summary["rows"].keys() == {"edgeformer-n", "popularity"}


def test_runs_that_rank_different_links_are_refused(network, tmp_path):
    given = arguments(network, tmp_path, "popularity", "recent-popularity")
    main(given)
    file = tmp_path / "100" / "runs" / "popularity-chronological" / "0" / RANKS
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(SystemExit, match=str(file.parent)):
        main(given)


def test_the_baseline_is_picked_on_validation():
    sources = np.array(["a", "a", "b", "b"])
    gains = {"ours": [0.4] * 4, "one": [0.1] * 4, "two": [0.2] * 4}
    seeds = dict.fromkeys(gains, 1)
    test = Links({row: np.array(values) for row, values in gains.items()}, seeds, sources, {})
    val = Links({**test.gains, "one": np.full(4, 0.9)}, seeds, sources, {})
    summary = summarize(val, test, "ours", ["one", "two"])
    assert summary["baseline"] == "one"
    assert summary["ratios"]["all"]["ratio"] == pytest.approx(4)
    assert summary["ratios"]["all"]["interval"] == pytest.approx([4, 4])
