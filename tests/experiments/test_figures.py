import shutil

import numpy as np

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.splits import SplitConfig
from edgeformers.experiments.figures import MIN_TOKENS, pick_edge
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import rebuild_tables, reproduce
from tests.experiments.conftest import TINY


def test_a_fixed_edge_with_enough_tokens_is_picked():
    edges, lengths = np.array([3, 5, 8, 9]), np.array([4, MIN_TOKENS, 40, 3])
    assert pick_edge(edges, lengths) in (5, 8)
    assert pick_edge(edges, lengths) == pick_edge(edges, lengths)
    assert pick_edge(edges, np.array([4, 2, 6, 3])) == 8


def test_without_a_test_part_the_attention_of_a_validation_edge_is_drawn(tmp_path):
    config = PrepareConfig(
        tokenizer="train:2000", progress=False, splits=[SplitConfig.parse("edge=random:0.8/0.2/0")]
    )
    graph = prepare_simulated(tmp_path / "network", num_edges=200, config=config)
    options = ExperimentOptions(recipe="fast", settings=TINY, estimate=False)
    result = reproduce("attention-map", graph, tmp_path / "out", options, show=False)
    assert result.failures == []
    svg = (tmp_path / "out" / "attention-map" / "attention-map.svg").read_text()
    assert "validation edge" in svg
    measured = {one.name: one for one in result.record.measurements}
    assert measured["virtual-minus-text"].examples == 40
    (claim,) = result.checked
    assert claim.effect.value == measured["virtual-minus-text"].value
    for path in (tmp_path / "out" / "attention-map").glob("*.svg"):
        path.unlink()
    shutil.rmtree(tmp_path / "out" / "runs")  # as on a machine that has no models
    (again,) = rebuild_tables(tmp_path / "out")
    assert again.record.measurements == result.record.measurements
    assert (tmp_path / "out" / "attention-map" / "attention-map.svg").read_text() == svg
