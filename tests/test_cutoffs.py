"""`benchmarks.cutoffs`: the network as it was, and links pooled over cutoffs."""

import json

import numpy as np
import pytest

from benchmarks.cutoffs import Links, main, network_until, summarize
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated


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


def test_test_links_of_all_cutoffs_are_pooled(network, tmp_path, capsys):
    arguments = ["--network", str(network.path), "-o", str(tmp_path), "--seeds", "1"]
    arguments += ["--cutoffs", "0.7", "1", "--models", "popularity", "recent-popularity"]
    arguments += ["--device", "cpu"]
    for _ in range(2):  # the second time nothing is run
        main([*arguments, "--ours", "recent-popularity"])
        summary = json.loads((tmp_path / "chronological.json").read_text())
        assert summary["links"] > 5
        assert summary["baseline"] == "popularity"
        assert summary["rows"].keys() == {"popularity", "recent-popularity"}
        low, high = summary["ratios"]["all"]["interval"]
        assert low <= summary["ratios"]["all"]["ratio"] <= high
    assert "picked on validation" in capsys.readouterr().out


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
