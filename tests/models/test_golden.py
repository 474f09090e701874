"""Both models against what the authors' code returned on the same weights."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from edgeformers.models.authors import authors_classifier, load_authors_checkpoint

HERE = Path(__file__).parent
MORE = HERE.parents[2] / "shared" / "golden"  # further cases, where they are at hand
NAMES = ("edge_1", "edge_2", "node_1", "node_2")
close = {"atol": 1e-5, "rtol": 1e-5}


def cases(kind):
    known = [pytest.param(HERE / f"golden_{kind}.safetensors", id=f"golden_{kind}")]
    absent = pytest.mark.skipif(not MORE.is_dir(), reason="needs the folder of golden outputs")
    names = [name for name in NAMES if name.startswith(kind)]
    return known + [pytest.param(MORE / f"{n}.safetensors", id=n, marks=absent) for n in names]


def read(path):
    tensors = load_file(path)
    weights = {name[2:]: t for name, t in tensors.items() if name.startswith("w.")}
    return tensors, weights


def encode(model, tensors, side):
    names = ("center", "token_ids", "token_mask", "neighbor", "neighbor_mask")
    return model.encode_nodes(*(tensors[f"in.{side}.{name}"] for name in names))


def ranks(scores):
    """Of each row's own key among all keys; 1 is best."""
    return 1 + (scores > scores.diagonal()[:, None]).sum(1)


@pytest.mark.parametrize("path", cases("edge"))
@torch.no_grad()
def test_edgeformer_e_gives_what_the_authors_code_gives(path):
    tensors, weights = read(path)
    model = load_authors_checkpoint(weights, "edge", num_heads=4)
    edge_repr = model.encode_edges(
        *(tensors[f"in.{name}"] for name in ("token_ids", "token_mask", "src", "dst"))
    )
    torch.testing.assert_close(edge_repr, tensors["out.edge_repr"], **close)

    weight, bias = authors_classifier(weights)
    probs = F.linear(edge_repr, weight, bias).softmax(-1)
    torch.testing.assert_close(probs, tensors["out.probs"], **close)
    one_hot = F.one_hot(tensors["in.label"], probs.size(1)).float()
    loss = F.binary_cross_entropy(probs, one_hot)
    torch.testing.assert_close(loss, tensors["out.loss"].squeeze(), **close)


@pytest.mark.parametrize("path", cases("node"))
@torch.no_grad()
def test_edgeformer_n_gives_what_the_authors_code_gives(path):
    tensors, weights = read(path)
    model = load_authors_checkpoint(weights, "node", num_heads=4)
    query, key = (encode(model, tensors, side) for side in ("query", "key"))
    torch.testing.assert_close(query, tensors["out.query_repr"], **close)
    torch.testing.assert_close(key, tensors["out.key_repr"], **close)

    scores = query @ key.T
    loss = F.cross_entropy(scores, torch.arange(len(scores)))
    torch.testing.assert_close(loss, tensors["out.loss"].squeeze(), **close)
    rank = ranks(scores).double()
    torch.testing.assert_close((1 / rank).mean(), tensors["out.mrr"].squeeze(), **close)
    gain = 1 / torch.log2(1 + rank)
    torch.testing.assert_close(gain.mean(), tensors["out.ndcg"].squeeze(), **close)


@torch.no_grad()
def test_what_the_paper_says_differs_from_the_release():
    """The same weights read at [CLS] instead of the neighbor's slot are another model."""
    from dataclasses import replace

    tensors, weights = read(HERE / "golden_node.safetensors")
    model = load_authors_checkpoint(weights, "node", num_heads=4)
    model.config = replace(model.config, readout="cls")
    difference = (encode(model, tensors, "query") - tensors["out.query_repr"]).abs().max()
    assert difference > 1e-3
