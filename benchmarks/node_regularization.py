"""Compare shrinkages of node embeddings on simulated networks as dense as Amazon-Apps.

A graph baseline over bags of words takes the place of Edgeformer-N, with its loss and its rates,
so that the full size fits on one CPU core: it overfits in the same way.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.simulate import SimulationConfig, simulate
from edgeformers.estimators import LinkPredictor

NETWORKS = {
    "apps-20k": SimulationConfig(
        num_edges=20_000, num_sources=2_320, num_targets=352, mean_words=10, seed=5
    ),
    "apps-200k": SimulationConfig(
        num_edges=200_000, num_sources=23_200, num_targets=3_520, mean_words=10, seed=5
    ),
    "apps-750k": SimulationConfig(
        num_edges=750_000, num_sources=87_000, num_targets=13_200, mean_words=10, seed=5
    ),
}
SETTINGS = {
    "model.name": "mean-sage-words",
    "model.backbone": "scratch:2x32",  # its vocabulary
    "model.bag_width": 32,
    "model.node_init": "factorized",
    "model.node_dropout": 0.0,
    "data.max_tokens": 5,
    "links.temperature": 0.1,
    "train.node_lr": 5e-3,
}


def main() -> None:
    """Print the validation MRR (`full`) after every epoch for each shrinkage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--shrinkage", type=float, nargs="+", default=[0.0, 10.0, 30.0])
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    simulation = simulate(NETWORKS[options.network])
    with TemporaryDirectory() as folder:
        config = PrepareConfig(tokenizer="train:8000", progress=False)
        graph = write_network(simulation.table, Path(folder) / "network", config=config)
        for shrinkage in options.shrinkage:
            changes = {"model.node_shrinkage": shrinkage, "train.epochs": options.epochs}
            predictor = LinkPredictor(settings={**SETTINGS, **changes}, show=False)
            predictor.fit(graph)
            assert predictor.progress is not None
            scores = [f"{epoch['full/mrr']:.4f}" for epoch in predictor.progress.history]
            print(f"shrinkage {shrinkage:g}: {' '.join(scores)}", flush=True)


if __name__ == "__main__":
    main()
