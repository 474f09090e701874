"""What the paper claims of its tables, one by one, and what is to be shown beyond it."""

from dataclasses import dataclass, replace
from typing import Literal

from edgeformers.evaluation import PROFILES
from edgeformers.experiments.model_rows import (
    EDGE_ROWS,
    LINK_ROWS,
    NODE_ROWS,
    RETURN_ROWS,
    ModelRow,
)

OURS = "ours"  # the section of a claim that is not the paper's


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An ordering: each of `better` above each of `worse`, or only the best above the best.

    Without `worse`, the rows of `better` rise in their order; with one row, its columns do.
    """

    experiment: str  # the experiment
    text: str
    section: str  # of the paper
    better: tuple[str, ...]
    worse: tuple[str, ...] = ()
    compare: Literal["each", "best", "rising"] = "each"
    is_lower: bool = False  # whether "above" means fewer, as of milliseconds
    slack: float = 0.0  # the share of a worse one by which a better one may yet fall behind it
    groups: tuple[str, ...] = ()  # of links that it is about; of all links where none is named


def _baselines(rows: tuple[ModelRow, ...]) -> tuple[str, ...]:
    return tuple(row.name for row in rows if row.in_paper and row.group != "ours")


NODE_CENTRIC = ("mean-sage", "max-sage", "gin")
EDGE_AWARE = ("censnet", "nenn")
WITH_BERT = {
    "mean-sage": "bert-mean-sage",
    "max-sage": "bert-max-sage-n",
    "gin": "bert-gin",
    "censnet": "bert-censnet",
    "nenn": "bert-nenn",
}
NEAR = 0.25  # what "quite close" is taken to be: the paper's own are within a fifth
_TITLES = {row.name: row.title for row in LINK_ROWS}
_LOST = {
    "center": "the center node token",
    "neighbor": "the neighbor node token",
    "local": "the neighbor text token",
}

#: Rows that not every network can have: nobody misses them there.
SOMETIMES = frozenset(name for row in RETURN_ROWS for name in (row.name, f"{row.name}-cold"))
_BASELINES = tuple(row.name for row in (*LINK_ROWS, *RETURN_ROWS) if row.group != "ours")
_TEXT_ALONE = ("text-similarity", "bert-n")


def _cold(text: str, better: str, worse: tuple[str, ...]) -> tuple[Claim, Claim]:
    """A claim about nodes held out, of all of them and by how much is known of them."""
    every = Claim(
        experiment="cold-start",
        text=text,
        section=OURS,
        better=(f"{better}-cold",),
        worse=tuple(f"{name}-cold" for name in worse),
    )
    return every, replace(every, groups=tuple(PROFILES))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        experiment="edge-classification",
        text="Edgeformer-E is above every baseline",
        section="4.2 (a), A.3",
        better=("edgeformer-e",),
        worse=_baselines(EDGE_ROWS),
    ),
    Claim(
        experiment="edge-classification",
        text="Edgeformer-E is above EHGNN, BERT+EHGNN, BERT+MaxSAGE and GraphFormers",
        section="A.3",
        better=("edgeformer-e",),
        worse=("ehgnn", "bert-ehgnn", "bert-max-sage", "graphformers"),
    ),
    Claim(
        experiment="edge-classification",
        text="methods with a language model are above bags of words",
        section="4.2 (b)",
        better=("bert", "bert-nodes", "edgeformer-e"),
        worse=("tfidf", "tfidf-nodes"),
    ),
    Claim(
        experiment="edge-classification",
        text="nodes help a bag of words: TF-IDF+nodes is above TF-IDF",
        section="4.2 (c)",
        better=("tfidf-nodes",),
        worse=("tfidf",),
    ),
    Claim(
        experiment="edge-classification",
        text="nodes help a language model: BERT+nodes is above BERT",
        section="4.2 (c)",
        better=("bert-nodes",),
        worse=("bert",),
    ),
    Claim(
        experiment="edge-classification",
        text="virtual tokens in every layer are above node tokens in the input: Edgeformer-E is "
        "above BERT+nodes",
        section="4.2 (d)",
        better=("edgeformer-e",),
        worse=("bert-nodes",),
    ),
    Claim(
        experiment="link-prediction",
        text="Edgeformer-N is above every baseline",
        section="4.3 (a), (d)",
        better=("edgeformer-n",),
        worse=_baselines(LINK_ROWS),
    ),
    Claim(
        experiment="link-prediction",
        text="the best method over BERT is above the best GNN over bags of words",
        section="4.3 (b)",
        better=tuple(row.name for row in LINK_ROWS if row.group == "plm"),
        worse=(*NODE_CENTRIC, *EDGE_AWARE),
        compare="best",
    ),
    *(
        Claim(
            experiment="link-prediction",
            text=f"{_TITLES[with_bert]} is above {_TITLES[plain]}",
            section="4.3 (b)",
            better=(with_bert,),
            worse=(plain,),
        )
        for plain, with_bert in WITH_BERT.items()
    ),
    Claim(
        experiment="link-prediction",
        text="the best edge-aware GNN is above the best node-centric one",
        section="4.3 (c)",
        better=EDGE_AWARE,
        worse=NODE_CENTRIC,
        compare="best",
    ),
    Claim(
        experiment="link-prediction",
        text="the best edge-aware GNN over BERT is above the best node-centric one over BERT",
        section="4.3 (c)",
        better=tuple(WITH_BERT[name] for name in EDGE_AWARE),
        worse=tuple(WITH_BERT[name] for name in NODE_CENTRIC),
        compare="best",
    ),
    *(
        Claim(
            experiment="ablation",
            text=f"{name} helps: Edgeformer-N is above itself without it",
            section="4.3, Table 3",
            better=("edgeformer-n",),
            worse=(f"edgeformer-n-without-{token}",),
        )
        for token, name in _LOST.items()
    ),
    Claim(
        experiment="link-prediction",
        text="Edgeformer-N + ensemble (LightGCN, MF, EASE) is above every baseline where little "
        "is known",
        section=OURS,
        better=("edgeformer-n-ensemble",),
        worse=_BASELINES,
        groups=("degree 1-3",),
    ),
    *_cold("Edgeformer-N is above popularity", "edgeformer-n", ("popularity",)),
    *_cold("Edgeformer-N is above the text alone", "edgeformer-n", _TEXT_ALONE),
    *_cold("Edgeformer-N is above every baseline", "edgeformer-n", _BASELINES),
    *_cold(
        "Edgeformer-N + ensemble (LightGCN, MF, EASE) is above every baseline",
        "edgeformer-n-ensemble",
        _BASELINES,
    ),
    Claim(
        experiment="node-classification",
        text="Edgeformer-N is above every baseline",
        section="4.3, Table 4 (a)",
        better=("edgeformer-n",),
        worse=tuple(name for name in NODE_ROWS if name != "edgeformer-n"),
    ),
    Claim(
        experiment="node-classification",
        text="the best edge-aware GNN is above MF, which sees no text",
        section="4.3, Table 4 (b)",
        better=EDGE_AWARE,
        worse=("als",),
        compare="best",
    ),
    Claim(
        experiment="node-classification",
        text="the best edge-aware GNN over BERT is above BERT alone",
        section="4.3, Table 4 (b)",
        better=tuple(WITH_BERT[name] for name in EDGE_AWARE),
        worse=("bert-n",),
        compare="best",
    ),
    Claim(
        experiment="efficiency",
        text=f"Edgeformer-N takes about as long as each of the others, at most {NEAR:.0%} longer",
        section="4.5 (a)",
        better=("edgeformer-n",),
        worse=("bert-gin", "bert-nenn", "graphformers-n"),
        is_lower=True,
        slack=NEAR,
    ),
    Claim(
        experiment="efficiency",
        text="models that nest the graph in the language model take longer than those after it",
        section="4.5 (b)",
        better=("bert-gin", "bert-nenn"),
        worse=("graphformers-n", "edgeformer-n"),
        is_lower=True,
    ),
    Claim(
        experiment="efficiency",
        text="the time of Edgeformer-N rises with every neighbor",
        section="4.5 (c)",
        better=("edgeformer-n",),
        compare="rising",
    ),
    Claim(
        experiment="node-dimension",
        text="wider node vectors are better",
        section="A.6",
        better=tuple(f"edgeformer-n-width-{n}" for n in (4, 8, 16, 32, 64)),
        compare="rising",
    ),
    Claim(
        experiment="neighbor-size",
        text="more neighbors are better",
        section="A.6",
        better=tuple(f"edgeformer-n-neighbors-{n}" for n in range(2, 21)),
        compare="rising",
    ),
)
