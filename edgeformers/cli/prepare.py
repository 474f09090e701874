"""The verb `prepare`: a table of edges becomes a network on disk."""

from pathlib import Path
from typing import Annotated, Any

import typer

from edgeformers.cli.describe import show_card
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import SIMULATED, open_nodes, prepare
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import OnError
from edgeformers.errors import InputError

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network
  edgeformers prepare . -o history  # in any git repository: author -> file

\b
With a table of your own:
  edgeformers prepare reviews.csv --source user --target item --text review -o net
"""

_TABLE, _NODES, _MAKE = "The table", "What is known of nodes", "The network"


def _option(text: str, panel: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


def _column(text: str) -> Any:
    return _option(text, _TABLE, metavar="COLUMN")


def prepare_command(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="Files (csv, tsv, jsonl, parquet; .gz, .zst), a quoted glob, a raw public dump, a "
            "git repository, an mbox; a dataset of the paper and its raw file; or 'simulated'.",
        ),
    ],
    out: Annotated[Path, _option("The folder to make.", _MAKE, "--out", "-o")],
    source: Annotated[str | None, _column("The source's id [source].")] = None,
    target: Annotated[str | None, _column("The target's id [target].")] = None,
    text: Annotated[str | None, _column("The text [text].")] = None,
    label: Annotated[str | None, _column("A label of the edge.")] = None,
    time: Annotated[str | None, _column("When the edge was made.")] = None,
    split_column: Annotated[str | None, _column("train, val or test.")] = None,
    edge_type: Annotated[str | None, _column("The type of the edge.")] = None,
    weight: Annotated[str | None, _column("A weight.")] = None,
    keep: Annotated[list[str] | None, _column("Another column to keep; may be repeated.")] = None,
    one_node_type: Annotated[
        bool, _option("Sources and targets are the same kind of node.", _TABLE, "--one-node-type")
    ] = False,
    undirected: Annotated[
        bool, _option("The direction of edges means nothing.", _TABLE, "--undirected")
    ] = False,
    label_kind: Annotated[str | None, _option("class, multi or number.", _TABLE)] = None,
    label_separator: Annotated[
        str | None, _option("What stands between several labels of an edge.", _TABLE)
    ] = None,
    classes: Annotated[str | None, _option("The labels allowed: 1,2,3,4,5.", _TABLE)] = None,
    format: Annotated[
        str | None, _option("The format, where it is not recognised.", _TABLE)
    ] = None,
    delimiter: Annotated[
        str | None, _option("Between fields, other than , or tab.", _TABLE)
    ] = None,
    quote: Annotated[str, _option("The quote, or 'none'.", _TABLE)] = '"',
    on_error: Annotated[str, _option("Rows that cannot be used: stop or skip.", _TABLE)] = "stop",
    nodes: Annotated[str | None, _option("A table of nodes.", _NODES, metavar="FILE")] = None,
    node_id: Annotated[str | None, _option("Its column of ids [id].", _NODES)] = None,
    node_labels: Annotated[str | None, _option("Its column of labels.", _NODES)] = None,
    node_label_separator: Annotated[str | None, _option("Between labels.", _NODES)] = None,
    node_text: Annotated[str | None, _option("Its column of texts.", _NODES)] = None,
    node_side: Annotated[str | None, _option("source or target.", _NODES)] = None,
    keep_isolated: Annotated[
        bool, _option("Keep nodes that have no edge.", _NODES, "--keep-isolated")
    ] = False,
    split: Annotated[
        list[str] | None,
        _option(
            "How to split: [NAME=]random, per-source, per-target, chronological, "
            "chronological-per-source, chronological-per-target, cold-source, cold-target or "
            "column:COLUMN; then "
            ":0.8/0.1/0.1 for other shares; +drop-target, +drop-source or +drop for nodes "
            "unseen in training; +new-pairs to test on new pairs only; +seed-7. May be repeated. "
            "[edge=random, link=per-source]",
            _MAKE,
        ),
    ] = None,
    min_degree: Annotated[
        int,
        _option("Drop nodes with fewer edges, again and again until none is left.", _MAKE),
    ] = 1,
    drop_repeats: Annotated[
        bool,
        _option(
            "Keep the first of edges that repeat an edge and its text.", _MAKE, "--drop-repeats"
        ),
    ] = False,
    positive: Annotated[str | None, _option("Labels that count as links: 4,5.", _MAKE)] = None,
    tokenizer: Annotated[
        str,
        _option("minilm, a folder, a hub name, train:8000, or none.", _MAKE),
    ] = "auto",
    edges: Annotated[int, _option(f"Edges of the '{SIMULATED}' network.", _MAKE)] = 20_000,
    seed: Annotated[int, _option(f"Seed of the '{SIMULATED}' network.", _MAKE)] = 0,
    overwrite: Annotated[
        bool, _option("Replace a network that is there.", _MAKE, "--overwrite")
    ] = False,
    quiet: Annotated[bool, _option("No progress bar and no card.", _MAKE, "--quiet")] = False,
    as_json: Annotated[bool, _option("Print the card as JSON.", _MAKE, "--json")] = False,
) -> None:
    """Read edges that carry text, check them, and write a network with its data card."""
    columns: dict[str, Any] = {
        "source": source,
        "target": target,
        "text": text,
        "label": label,
        "time": time,
        "split": split_column,
        "edge_type": edge_type,
        "weight": weight,
        "keep": keep,
        "label_kind": label_kind,
        "label_separator": label_separator,
        "classes": classes.split(",") if classes else None,
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "format": format,
    }
    columns = {name: value for name, value in columns.items() if value is not None}
    columns |= {"bipartite": False} if one_node_type else {}
    columns |= {"directed": False} if undirected else {}
    columns |= {"quote": "" if quote == "none" else quote} if quote != '"' else {}
    if data[0] == SIMULATED and not columns:
        columns = {"num_edges": edges, "seed": seed}
    if on_error not in ("stop", "skip"):
        raise InputError(f"--on-error must be stop or skip (got '{on_error}')")
    named = {
        "id": node_id,
        "labels": node_labels,
        "label_separator": node_label_separator,
        "text": node_text,
        "side": node_side,
    }
    about = {name: value for name, value in named.items() if value is not None}
    errors: OnError = "skip" if on_error == "skip" else "stop"
    graph = prepare(
        data,
        out,
        nodes=[open_nodes(nodes, on_error=errors, **about)] if nodes else [],
        config=PrepareConfig(
            splits=[SplitConfig.parse(one) for one in split] if split else None,
            tokenizer=None if tokenizer == "none" else tokenizer,
            positive_labels=positive.split(",") if positive else (),
            keep_isolated=keep_isolated,
            min_degree=min_degree,
            drop_repeats=drop_repeats,
            progress=not quiet,
        ),
        on_error=errors,
        overwrite=overwrite,
        **columns,
    )
    if as_json or not quiet:
        show_card(graph, as_json=as_json)
