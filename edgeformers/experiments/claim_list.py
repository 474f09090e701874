"""The claims that the paper makes about its tables, and our own claims beyond it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edgeformers.evaluation import PROFILES
from edgeformers.experiments.model_rows import (
    EDGE_ROWS,
    LINK_ROWS,
    NODE_ROWS,
    RECIPROCITY_ROWS,
    ROWS,
    VIRTUAL_TOKENS,
)

OURS = "ours"  # the section of a claim that is not the paper's


@dataclass(frozen=True)
class Claim:
    """An ordering: each row of `better` outperforms each of `worse`, or only the best the best.

    A claim without `worse` says that rows improve in the given order; with a single row, that its
    columns do.
    """

    text: str
    section: str  # of the paper
    better: tuple[str, ...]
    worse: tuple[str, ...] = ()
    compare: Literal["each", "best", "rising"] = "each"
    lower_is_better: bool = False
    slack: float = 0.0  # a better row may fall behind by this share of the worse one
    groups: tuple[str, ...] = ()  # of links; a claim without groups is about all links


def _paper_baselines(rows: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in rows if ROWS[name].in_paper and ROWS[name].group != "ours")


EDGES, LINKS = (tuple(row.name for row in rows) for rows in (EDGE_ROWS, LINK_ROWS))
NODE_CENTRIC = ("mean-sage", "max-sage", "gin")
EDGE_AWARE = ("censnet", "nenn")
WITH_BERT = {
    "mean-sage": "bert-mean-sage",
    "max-sage": "bert-max-sage-n",
    "gin": "bert-gin",
    "censnet": "bert-censnet",
    "nenn": "bert-nenn",
}
BERT_NODE_CENTRIC = tuple(WITH_BERT[name] for name in NODE_CENTRIC)
BERT_EDGE_AWARE = tuple(WITH_BERT[name] for name in EDGE_AWARE)
CLOSE = 0.25  # our reading of "quite close": the paper's own times differ by up to a fifth
ENSEMBLE = "edgeformer-n-ensemble"
#: Rows that some networks cannot have; claims about them do not count as missing there.
OPTIONAL_ROWS = frozenset(
    name for row in RECIPROCITY_ROWS for name in (row.name, f"{row.name}-cold")
)
_LINK_BASELINES = tuple(row.name for row in (*LINK_ROWS, *RECIPROCITY_ROWS) if row.group != "ours")


def _cold(text: str, better: str, worse: tuple[str, ...]) -> tuple[Claim, Claim]:
    """A claim about held-out nodes: about all of them, and by the number of known edges."""
    cold = Claim(text, OURS, (f"{better}-cold",), tuple(f"{name}-cold" for name in worse))
    return cold, replace(cold, groups=tuple(PROFILES))


CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "edge-classification": (
        Claim(
            "Edgeformer-E outperforms every baseline",
            "4.2 (a), A.3",
            ("edgeformer-e",),
            _paper_baselines(EDGES),
        ),
        Claim(
            "Edgeformer-E outperforms EHGNN, BERT+EHGNN, BERT+MaxSAGE and GraphFormers",
            "A.3",
            ("edgeformer-e",),
            ("ehgnn", "bert-ehgnn", "bert-max-sage", "graphformers"),
        ),
        Claim(
            "methods with a language model outperform bags of words",
            "4.2 (b)",
            ("bert", "bert-nodes", "edgeformer-e"),
            ("tfidf", "tfidf-nodes"),
        ),
        Claim(
            "nodes help a bag of words: TF-IDF+nodes outperforms TF-IDF",
            "4.2 (c)",
            ("tfidf-nodes",),
            ("tfidf",),
        ),
        Claim(
            "nodes help a language model: BERT+nodes outperforms BERT",
            "4.2 (c)",
            ("bert-nodes",),
            ("bert",),
        ),
        Claim(
            "virtual tokens in every layer are better than node tokens in the input: "
            "Edgeformer-E outperforms BERT+nodes",
            "4.2 (d)",
            ("edgeformer-e",),
            ("bert-nodes",),
        ),
    ),
    "link-prediction": (
        Claim(
            "Edgeformer-N outperforms every baseline",
            "4.3 (a), (d)",
            ("edgeformer-n",),
            _paper_baselines(LINKS),
        ),
        Claim(
            "the best method with BERT outperforms the best GNN with bags of words",
            "4.3 (b)",
            tuple(row.name for row in LINK_ROWS if row.group == "plm"),
            (*NODE_CENTRIC, *EDGE_AWARE),
            compare="best",
        ),
        *(
            Claim(
                f"{ROWS[bert].title} outperforms {ROWS[plain].title}", "4.3 (b)", (bert,), (plain,)
            )
            for plain, bert in WITH_BERT.items()
        ),
        Claim(
            "the best edge-aware GNN outperforms the best node-centric GNN",
            "4.3 (c)",
            EDGE_AWARE,
            NODE_CENTRIC,
            compare="best",
        ),
        Claim(
            "the best edge-aware GNN with BERT outperforms the best node-centric GNN with BERT",
            "4.3 (c)",
            BERT_EDGE_AWARE,
            BERT_NODE_CENTRIC,
            compare="best",
        ),
        Claim(
            f"{ROWS[ENSEMBLE].title} outperforms every baseline for queries of low degree",
            OURS,
            (ENSEMBLE,),
            _LINK_BASELINES,
            groups=("degree 1-3",),
        ),
    ),
    "ablation": tuple(
        Claim(
            f"the {title} helps: Edgeformer-N outperforms the model without it",
            "4.3, Table 3",
            ("edgeformer-n",),
            (f"edgeformer-n-without-{token}",),
        )
        for token, title in VIRTUAL_TOKENS["edgeformer-n"].items()
    ),
    "cold-start": (
        *_cold("Edgeformer-N outperforms popularity", "edgeformer-n", ("popularity",)),
        *_cold(
            "Edgeformer-N outperforms models of the text alone",
            "edgeformer-n",
            ("text-similarity", "bert-n"),
        ),
        *_cold("Edgeformer-N outperforms every baseline", "edgeformer-n", _LINK_BASELINES),
        *_cold(f"{ROWS[ENSEMBLE].title} outperforms every baseline", ENSEMBLE, _LINK_BASELINES),
    ),
    "node-classification": (
        Claim(
            "Edgeformer-N outperforms every baseline",
            "4.3, Table 4 (a)",
            ("edgeformer-n",),
            _paper_baselines(NODE_ROWS),
        ),
        Claim(
            "the best edge-aware GNN outperforms MF, which uses no text",
            "4.3, Table 4 (b)",
            EDGE_AWARE,
            ("als",),
            compare="best",
        ),
        Claim(
            "the best edge-aware GNN with BERT outperforms BERT alone",
            "4.3, Table 4 (b)",
            BERT_EDGE_AWARE,
            ("bert-n",),
            compare="best",
        ),
    ),
    "efficiency": (
        Claim(
            f"Edgeformer-N takes at most {CLOSE:.0%} longer than each of the others",
            "4.5 (a)",
            ("edgeformer-n",),
            ("bert-gin", "bert-nenn", "graphformers-n"),
            lower_is_better=True,
            slack=CLOSE,
        ),
        Claim(
            "models that nest the graph in the language model take longer than cascaded ones",
            "4.5 (b)",
            ("bert-gin", "bert-nenn"),
            ("graphformers-n", "edgeformer-n"),
            lower_is_better=True,
        ),
        Claim(
            "the time of Edgeformer-N grows with every neighbor",
            "4.5 (c)",
            ("edgeformer-n",),
            compare="rising",
        ),
    ),
    "node-dimension": (
        Claim(
            "wider node embeddings are better",
            "A.6",
            tuple(f"edgeformer-n-width-{n}" for n in (4, 8, 16, 32, 64)),
            compare="rising",
        ),
    ),
    "neighbor-size": (
        Claim(
            "more neighbors are better",
            "A.6",
            tuple(f"edgeformer-n-neighbors-{n}" for n in range(2, 21)),
            compare="rising",
        ),
    ),
}
