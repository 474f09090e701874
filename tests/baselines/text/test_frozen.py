import numpy as np
import pytest

from edgeformers.baselines.text.frozen import Frozen
from edgeformers.data.splits import TEST
from edgeformers.evaluation.metrics import micro_f1
from tests.baselines.tiny import write_backbone


def test_text_vectors_predict_the_class(opinions, tmp_path):
    backbone = write_backbone(tmp_path / "backbone", opinions)
    model = Frozen(backbone).fit(opinions, "given")
    labels = np.asarray(opinions.labels)
    test = np.flatnonzero((opinions.split("given") == TEST) & (labels >= 0))[:-1]
    assert micro_f1(labels[test], model.predict(test)) == 1.0
    assert (model.setting["backbone"], model.setting["max_tokens"]) == (backbone, 64)


def test_edges_with_the_same_text_have_the_same_probabilities(opinions, tmp_path):
    model = Frozen(write_backbone(tmp_path / "backbone", opinions)).fit(opinions, "given")
    table = model.predict_proba([0, 3, 6])  # the same words from three sources
    np.testing.assert_allclose(table, table[[0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize("lbfgs_edges", [10**6, 0], ids=["lbfgs", "sgd"])
def test_both_solvers_give_probabilities(opinions, tmp_path, lbfgs_edges):
    backbone = write_backbone(tmp_path / "backbone", opinions)
    model = Frozen(backbone, lbfgs_edges=lbfgs_edges).fit(opinions, "given")
    np.testing.assert_allclose(model.predict_proba(np.arange(10)).sum(1), 1.0)
