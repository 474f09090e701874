import numpy as np
import pytest
import torch

from edgeformers.evaluation import InnerProductScorer, rank_full, rank_sampled


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_scores_are_inner_products(wrap):
    rng = np.random.default_rng(1)
    query, candidate = rng.normal(size=(5, 3)), rng.normal(size=(8, 3))
    scorer = InnerProductScorer(wrap(query), wrap(candidate))
    expected = query @ candidate.T
    np.testing.assert_allclose(scorer.scores(np.arange(5)), expected, rtol=1e-6)
    columns = np.array([[1, 7], [0, 2]])
    picked = scorer.pick(np.array([4, 2]), columns)
    np.testing.assert_allclose(picked, expected[[[4], [2]], columns], rtol=1e-6)


def test_tensors_are_ranked_like_arrays():
    rng = np.random.default_rng(2)
    query, candidate = rng.normal(size=(6, 4)), rng.normal(size=(9, 4))
    positive = rng.integers(0, 9, 6)
    tensors = InnerProductScorer(torch.from_numpy(query), torch.from_numpy(candidate))
    arrays = InnerProductScorer(query, candidate)
    assert rank_full(tensors, positive).tolist() == rank_full(arrays, positive).tolist()
    assert rank_sampled(tensors, positive).tolist() == rank_sampled(arrays, positive).tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8])
def test_half_precision_vectors_are_multiplied_in_single_precision(dtype):
    query, candidate = torch.full((2, 40), 100).to(dtype), torch.full((3, 40), 100).to(dtype)
    scores = InnerProductScorer(query, candidate).scores(np.arange(2))
    assert scores.dtype == np.float32
    assert scores.tolist() == [[400_000.0] * 3] * 2
