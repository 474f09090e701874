import numpy as np

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.splits import SplitConfig
from edgeformers.experiments.drawings import LEAST_TOKENS, pick_edge
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import reproduce
from tests.experiments.conftest import TINY


def test_without_a_test_part_the_text_of_a_validation_edge_is_drawn(tmp_path):
    config = PrepareConfig(
        tokenizer="train:2000", progress=False, splits=[SplitConfig.parse("edge=random:0.8/0.2/0")]
    )
    graph = prepare_simulated(tmp_path / "network", num_edges=200, config=config)
    options = ExperimentOptions(recipe="fast", settings=TINY, estimate=False)
    made = reproduce("attention-map", graph, tmp_path / "out", options, show=False)
    assert made.failures == []
    svg = (tmp_path / "out" / "attention-map" / "attention-map.svg").read_text()
    assert "What the read-out token of one validation edge reads, by layer" in svg


def test_the_drawn_edge_has_enough_text_and_is_always_the_same():
    edges, lengths = np.array([3, 5, 8, 9]), np.array([4, LEAST_TOKENS, 40, 3])
    assert pick_edge(edges, lengths) in (5, 8)
    assert pick_edge(edges, lengths) == pick_edge(edges, lengths)
    assert pick_edge(edges, np.array([4, 2, 6, 3])) == 8
