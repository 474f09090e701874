"""Small tables, networks and tokenizers that tests of several modules use."""

import atexit
import os
import shutil
import tempfile

import pytest
import torch
from hypothesis import settings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from edgeformers.config import TrainSettings
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.table import EdgeTable, NodeTable
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.training.trainer import Trainer
from tests.fitted import classifier, predictor, trained  # noqa: F401

settings.register_profile("busy", deadline=None)  # a machine may have other work to do
settings.load_profile("busy")

os.environ["EDGEFORMERS_CACHE"] = tempfile.mkdtemp(prefix="edgeformers-tests-")
atexit.register(shutil.rmtree, os.environ["EDGEFORMERS_CACHE"], ignore_errors=True)

PLAIN = PrepareConfig(tokenizer=None, progress=False)
WORDS = ["a", "good", "film", "bad", "book", "##s", "##ly", "!", "."]

REVIEWS = [
    {"source": "ann", "target": "alien", "text": "A good film.", "label": "5"},
    {"source": "bob", "target": "alien", "text": "a bad, bad film!", "label": "1"},
    {"source": "ann", "target": "brazil", "text": "", "label": None},
    {"source": "cat", "target": "ann", "text": "good books", "label": "10"},
    {"source": "bob", "target": "alien", "text": "badly", "label": "5"},
]


@pytest.fixture
def make_table():
    """An edge table of Python rows; its canonical columns are those the first row has."""

    def make(rows, *, bipartite=True, extra=None, **more) -> EdgeTable:
        fields = [name for name in rows[0] if name not in (extra or {})] if rows else []
        kind = {key: more.pop(key) for key in ("label_kind", "label_separator") if key in more}
        table = EdgeTable.from_rows(
            lambda: rows, fields=fields, extra=extra, origin="rows", bipartite=bipartite, **more
        )
        return EdgeTable(**{**vars(table), **kind})

    return make


@pytest.fixture
def make_nodes():
    """A node table of Python rows with keys id, side, labels and text."""
    return lambda rows, **more: NodeTable.from_rows(lambda: rows, origin="nodes.csv", **more)


@pytest.fixture
def make_network(make_table, tmp_path):
    """A prepared network of Python rows, without tokens unless its settings say so."""

    def make(rows=REVIEWS, *, nodes=(), config=PLAIN, out="network", overwrite=False, **table):
        path = tmp_path / out
        made = make_table(rows, **table)
        return write_network(made, path, nodes=nodes, config=config, overwrite=overwrite)

    return make


@pytest.fixture
def reviews(make_network):
    """Five reviews, one without text, two of the same pair, "ann" on both sides."""
    return make_network()


@pytest.fixture(scope="session")
def simulated(tmp_path_factory):
    """The built-in network with 600 edges, of which a model can learn; not to be written to."""
    path = tmp_path_factory.mktemp("simulated") / "network"
    config = PrepareConfig(tokenizer="train:8000", progress=False)
    return prepare_simulated(path, num_edges=600, config=config)


@pytest.fixture(scope="session")
def bert_tokenizer() -> Tokenizer:
    """A word-piece tokenizer of a dozen words with [CLS] and [SEP]."""
    vocab = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


@pytest.fixture(scope="session")
def roberta_tokenizer() -> Tokenizer:
    """A byte-level tokenizer without merges, with <s> and </s> as RoBERTa has them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


@pytest.fixture
def tokenizer_folder(bert_tokenizer, tmp_path):
    """A folder with a tokenizer.json, as a backbone has it."""
    folder = tmp_path / "backbone"
    folder.mkdir()
    bert_tokenizer.save(str(folder / "tokenizer.json"))
    return folder


# Objectives over the built-in network with tiny models, as training meets them.
CPU = torch.device("cpu")
SMALL = {
    "train.epochs": 2,
    "train.batch_size": 48,
    "train.sparse_nodes": True,
    "model.node_width": 16,
}
FEW = {
    "data.source_neighbors": [2],
    "data.target_neighbors": [3],
    "links.uniform_negatives": 0,
    "links.cached_negatives": 0,
    "links.logq": 0.0,
}


def _objective(kind, graph, settings):
    """The objective of an untrained estimator, in training mode."""
    estimator = kind("scratch:2x32", settings=settings, show=False, device="cpu")
    objective = estimator.make_objective(graph)
    objective.modules.train()
    return objective


@pytest.fixture
def make_edges(simulated):
    """An untrained edge objective."""
    return lambda graph=None, **settings: _objective(
        EdgeClassifier, graph or simulated, {**SMALL, **settings}
    )


@pytest.fixture
def make_links(simulated):
    """An untrained link objective."""
    return lambda graph=None, **settings: _objective(
        LinkPredictor, graph or simulated, {**SMALL, **FEW, **settings}
    )


@pytest.fixture
def make_trainer():
    """A trainer on the CPU."""

    def make(objective, folder=None, **settings):
        train = TrainSettings(**{"epochs": 2, "checkpoint_every": 3, **settings})
        return Trainer(objective, train, device=CPU, folder=folder, show=False)

    return make


@pytest.fixture
def without_dropout():
    """Every dropout of an objective's modules switched off, training mode kept."""

    def switch_off(objective):
        for module in objective.modules.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
        objective.model.nodes.node_dropout = 0.0
        return objective

    return switch_off
