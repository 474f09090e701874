import pytest

from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.plan import ExperimentOptions, make_plan

#: Settings with which any model trains in a second or two.
TINY = {"model.backbone": "scratch:2x32", "train.epochs": 1, "train.batch_size": 128}


@pytest.fixture
def tiny_plan(simulated, tmp_path):
    """Makes a plan on the built-in network for rows given by name."""

    def make(*names, experiment="edge-classification", seeds=1, **settings):
        options = ExperimentOptions(recipe="fast", seeds=seeds, settings={**TINY, **settings})
        rows = [ROWS[name] for name in names]
        return make_plan(experiment, rows, simulated, tmp_path / "out", options)

    return make
