"""Records made by hand, for tables and claims."""

from edgeformers.experiments.model_rows import (
    COLD_SPLIT,
    RECIPROCITY_ROWS,
    ROWS,
    ablation_rows,
    all_link_rows,
    split_rows,
)
from edgeformers.experiments.record import Comparison, Entry, Record, RowInfo

NETWORK = {"name": "net", "origin": "net.csv", "nodes": 1200, "edges": 34567, "fingerprint": "f"}
KNOWN = {
    **ROWS,
    **{
        row.name: row
        for row in (
            *ablation_rows(),
            *split_rows((*all_link_rows(), *RECIPROCITY_ROWS), "cold", COLD_SPLIT),
        )
    },
}


def make_record(
    experiment="edge-classification", values=None, *, part="test", dataset=None, **more
):
    """A record of rows with the values of their seeds: {row: [{metric: value}, ...]}."""
    values = values or {}
    return Record(
        experiment=experiment,
        network=NETWORK,
        dataset=dataset,
        recipe="default",
        backbone="minilm",
        rows=[_info(name) for name in values],
        entries=[
            Entry(row=row, seed=seed, metrics={part: metrics}, seconds=90.0, device="cpu")
            for row, runs in values.items()
            for seed, metrics in enumerate(runs)
        ],
        **more,
    )


def edge_runs(*macro, micro=0.5):
    """Runs of an edge model by their Macro-F1."""
    return [{"macro_f1": value, "micro_f1": micro} for value in macro]


def link_runs(*mrr):
    """Runs of a link model by their MRR, the same under all protocols."""
    protocols, metrics = ("paper", "sampled", "full"), ("mrr", "ndcg", "hit@10")
    names = [f"{protocol}/{metric}" for protocol in protocols for metric in metrics]
    return [dict.fromkeys(names, value) for value in mrr]


def lead(best, second, **more):
    """That the first leads the second in Macro-F1."""
    given = {"table": "edge-classification/test", "metric": "macro_f1", "difference": 0.025}
    given |= {"low": 0.01, "high": 0.04, "p_value": 0.0012, "examples": 1500, **more}
    return Comparison(best=best, second=second, **given)


def _info(name):
    row = KNOWN[name]
    return RowInfo(name=name, title=row.title, group=row.group, task=row.task)
