"""What the paper claims of its tables, one by one, and whether ours bear it out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

from edgeformers.experiments.record import Record
from edgeformers.experiments.rows import EDGE_ROWS, LINK_ROWS, NODE_ROWS, Row
from edgeformers.experiments.tables import Cell, Spec, row_means, table_specs

Verdict = Literal["holds", "does not hold", "not measured"]
Means = Mapping[str, Mapping[str, Cell]]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An ordering: each of `better` above each of `worse`, or only the best above the best.

    Without `worse`, the rows of `better` rise in their order; with one row, its columns do.
    """

    what: str  # the experiment
    text: str
    section: str  # of the paper
    better: tuple[str, ...]
    worse: tuple[str, ...] = ()
    compare: Literal["each", "best", "rising"] = "each"
    is_lower: bool = False  # whether "above" means fewer, as of milliseconds


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A claim in the light of one table: the smallest margin over all comparisons and metrics."""

    claim: Claim
    table: str
    verdict: Verdict
    margin: float | None = None
    compared: int = 0  # pairs of numbers
    weakest: str = ""  # the comparison with the smallest margin
    missing: int = 0  # rows the claim names that were not measured

    def __str__(self) -> str:
        if self.margin is None:
            return f"not measured: {self.claim.text} ({self.claim.section})"
        sign = "+" if self.margin > 0 else ""
        lost = f"; {self.missing} of its rows not measured" if self.missing else ""
        return (
            f"{self.verdict}: {self.claim.text} ({self.claim.section}); smallest margin "
            f"{sign}{self.margin:.4f}, {self.weakest}, of {self.compared} compared{lost}"
        )


def _baselines(rows: tuple[Row, ...]) -> tuple[str, ...]:
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
_TITLES = {row.name: row.title for row in LINK_ROWS}
_LOST = {
    "center": "the center node token",
    "neighbor": "the neighbor node token",
    "local": "the neighbor text token",
}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        what="edge-classification",
        text="Edgeformer-E is above every baseline",
        section="4.2 (a), A.3",
        better=("edgeformer-e",),
        worse=_baselines(EDGE_ROWS),
    ),
    Claim(
        what="edge-classification",
        text="methods with a language model are above bags of words",
        section="4.2 (b)",
        better=("bert", "bert-nodes", "edgeformer-e"),
        worse=("tfidf", "tfidf-nodes"),
    ),
    Claim(
        what="edge-classification",
        text="nodes help a bag of words: TF-IDF+nodes is above TF-IDF",
        section="4.2 (c)",
        better=("tfidf-nodes",),
        worse=("tfidf",),
    ),
    Claim(
        what="edge-classification",
        text="nodes help a language model: BERT+nodes is above BERT",
        section="4.2 (c)",
        better=("bert-nodes",),
        worse=("bert",),
    ),
    Claim(
        what="edge-classification",
        text="virtual tokens in every layer are above node tokens in the input: Edgeformer-E is "
        "above BERT+nodes",
        section="4.2 (d)",
        better=("edgeformer-e",),
        worse=("bert-nodes",),
    ),
    Claim(
        what="link-prediction",
        text="Edgeformer-N is above every baseline",
        section="4.3 (a), (d)",
        better=("edgeformer-n",),
        worse=_baselines(LINK_ROWS),
    ),
    Claim(
        what="link-prediction",
        text="the best method over BERT is above the best GNN over bags of words",
        section="4.3 (b)",
        better=tuple(row.name for row in LINK_ROWS if row.group == "plm"),
        worse=(*NODE_CENTRIC, *EDGE_AWARE),
        compare="best",
    ),
    *(
        Claim(
            what="link-prediction",
            text=f"{_TITLES[with_bert]} is above {_TITLES[plain]}",
            section="4.3 (b)",
            better=(with_bert,),
            worse=(plain,),
        )
        for plain, with_bert in WITH_BERT.items()
    ),
    Claim(
        what="link-prediction",
        text="the best edge-aware GNN is above the best node-centric one",
        section="4.3 (c)",
        better=EDGE_AWARE,
        worse=NODE_CENTRIC,
        compare="best",
    ),
    *(
        Claim(
            what="ablation",
            text=f"{name} helps: Edgeformer-N is above itself without it",
            section="4.3, Table 3",
            better=("edgeformer-n",),
            worse=(f"edgeformer-n-without-{token}",),
        )
        for token, name in _LOST.items()
    ),
    Claim(
        what="node-classification",
        text="Edgeformer-N is above every baseline",
        section="4.3, Table 4 (a)",
        better=("edgeformer-n",),
        worse=tuple(name for name in NODE_ROWS if name != "edgeformer-n"),
    ),
    Claim(
        what="efficiency",
        text="models that nest the graph in the language model take longer than those after it",
        section="4.5 (b)",
        better=("bert-gin", "bert-nenn"),
        worse=("graphformers-n", "edgeformer-n"),
        is_lower=True,
    ),
    Claim(
        what="efficiency",
        text="the time of Edgeformer-N rises with every neighbor",
        section="4.5 (c)",
        better=("edgeformer-n",),
        compare="rising",
    ),
    Claim(
        what="node-dimension",
        text="wider node vectors are better",
        section="A.6",
        better=tuple(f"edgeformer-n-width-{n}" for n in (4, 8, 16, 32, 64)),
        compare="rising",
    ),
    Claim(
        what="neighbor-size",
        text="more neighbors are better",
        section="A.6",
        better=tuple(f"edgeformer-n-neighbors-{n}" for n in range(2, 21)),
        compare="rising",
    ),
)


def check_claims(record: Record) -> list[Checked]:
    """Every claim about an experiment, in each of its tables of the part that the paper shows."""
    return [
        check_claim(claim, row_means(record, spec), spec)
        for spec in table_specs(record.what)
        for claim in CLAIMS
        if claim.what == record.what
        and spec.part in ("test", "train")
        and spec.task in (None, _task(claim))
    ]


def check_claim(claim: Claim, means: Means, spec: Spec) -> Checked:
    """One claim in one table, over the rows that were measured and the metrics of the paper."""
    metrics = [metric for metric in spec.metrics if not metric.endswith("hit@10")]
    found = list(_margins(claim, means, metrics))
    if not found:
        return Checked(claim=claim, table=spec.name, verdict="not measured")
    margin, weakest = min(found)
    return Checked(
        claim=claim,
        table=spec.name,
        verdict="holds" if margin > 0 else "does not hold",
        margin=margin,
        compared=len(found),
        weakest=weakest,
        missing=_missing(claim, means),
    )


def claim_lines(checked: Sequence[Checked]) -> list[str]:
    """A line per claim that was measured, with its table; then how many were not."""
    lines = [f"{one.table}: {one}" for one in checked if one.margin is not None]
    missing = len(checked) - len(lines)
    return [*lines, f"{missing} claims of the paper were not measured"] if missing else lines


def claims_text(checked: Sequence[Checked]) -> str:
    """Every claim in Markdown, measured or not; empty where the paper claims nothing."""
    lines = [f"- `{one.table}`: {one}" for one in checked]
    return "\n".join(["### What the paper claims", "", *lines]) + "\n" if lines else ""


def _margins(claim: Claim, means: Means, metrics: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Every comparison a claim makes: its margin, positive where the claim is right."""
    sign = -1.0 if claim.is_lower else 1.0
    if claim.compare == "rising" and len(claim.better) == 1:
        cells = means.get(claim.better[0], {})
        values = [(metric, cells[metric].value) for metric in metrics if metric in cells]
        yield from ((after - before, f"{a} to {b}") for (a, before), (b, after) in pairwise(values))
        return
    for metric in metrics:
        better, worse = (
            {row: sign * means[row][metric].value for row in rows if metric in means.get(row, {})}
            for rows in (claim.better, claim.worse)
        )
        if claim.compare == "rising":
            pairs = [(after, before) for before, after in pairwise(better.items())]
        elif claim.compare == "best":
            pairs = list(product(_best(better), _best(worse)))
        else:
            pairs = list(product(better.items(), worse.items()))
        for (above, high), (below, low) in pairs:
            yield high - low, f"{above} over {below} in {metric}"


def _missing(claim: Claim, means: Means) -> int:
    """Rows without numbers; a rise is told of the values that were tried."""
    named = () if claim.compare == "rising" else (*claim.better, *claim.worse)
    return sum(row not in means for row in named)


def _best(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return [max(values.items(), key=lambda item: item[1])] if values else []


def _task(claim: Claim) -> str:
    is_edge = claim.better[0] in {row.name for row in EDGE_ROWS}
    return "edge-classification" if is_edge else "link-prediction"
