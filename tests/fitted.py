"""Models fitted once per process, for tests of any module; not to be written to."""

import os
from pathlib import Path

import pytest

from edgeformers.estimators import EdgeClassifier, LinkPredictor
from tests.cli.conftest import TINY, call
from tests.estimators.conftest import tiny


@pytest.fixture(scope="session")
def classifier(simulated, tmp_path_factory):
    """A classifier fitted in a run folder."""
    return tiny(EdgeClassifier).fit(simulated, run=tmp_path_factory.mktemp("edge-run"))


@pytest.fixture(scope="session")
def predictor(simulated, tmp_path_factory):
    """A link predictor fitted in a run folder."""
    return tiny(LinkPredictor).fit(simulated, run=tmp_path_factory.mktemp("link-run"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with `network`, `run-edges` and `run-links`, all made by the program."""
    folder, before = tmp_path_factory.mktemp("trained"), Path.cwd()
    os.chdir(folder)
    try:
        made = call("prepare", "simulated", "-o", "network", "--edges", 1000, "--quiet")
        assert made.code == 0, made.err
        for task, out in (("edge-classification", "run-edges"), ("link-prediction", "run-links")):
            made = call("train", task, "network", "-o", out, *TINY)
            assert made.code == 0, made.err
    finally:
        os.chdir(before)
    return folder
