"""The command `prepare`: from a table of edges to a network on disk."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeformers.cli.command import OUT, Command, argument, choose, option, split_list
from edgeformers.cli.report import add_card, print_card

if TYPE_CHECKING:
    from edgeformers.data.card.card import DataCard
    from edgeformers.data.table import NodeTable

edge_option = partial(option, panel="Edge table")
edge_column = partial(edge_option, metavar="COLUMN")
node_option = partial(option, panel="Node table")
node_column = partial(node_option, metavar="COLUMN")
network_option = partial(option, panel="Network")


@dataclass(frozen=True, kw_only=True)
class Prepare(Command):
    """Convert edges with text to a network and describe it."""

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network
  edgeformers prepare . -o history  # in any git repository: author -> file

\b
With a table of your own:
  edgeformers prepare reviews.csv --source user --target item --text review -o net
"""

    data: list[str] = argument(
        "Files (csv, tsv, jsonl, parquet; also .gz, .zst), a folder of them, a quoted glob, a raw "
        "public dump, a git repository or an mbox; a dataset of the paper followed by its raw "
        "file; or 'simulated'.",
        metavar="DATA...",
    )
    out: Path = option("Folder of the network.", ..., names=OUT)
    format: str | None = option("Input format, if it is not recognized.")
    on_error: str = option("For unusable rows: stop or skip.", "stop")
    overwrite: bool = option("Replace an existing network.", False)
    quiet: bool = option("Print neither progress nor the card.", False)

    source: str | None = edge_column("Source ids. [default: source]")
    target: str | None = edge_column("Target ids. [default: target]")
    text: str | None = edge_column("Texts. [default: text]")
    label: str | None = edge_column("Edge labels.")
    time: str | None = edge_column("Times of the edges: ISO 8601, Unix times, years or YYYYMMDD.")
    split_column: str | None = edge_column("Parts: train, val or test.")
    edge_type: str | None = edge_column("Edge types.")
    weight: str | None = edge_column("Edge weights.")
    keep: list[str] | None = edge_column("Another column to keep. Repeatable.")
    one_node_type: bool = edge_option("Sources and targets are the same entities.", False)
    undirected: bool = edge_option("Edges have no direction.", False)
    label_kind: str | None = edge_option("class, multi or number.")
    label_separator: str | None = edge_option("Separator between the labels of an edge.")
    classes: list[str] | None = edge_option(
        "Allowed labels: 1,2,3,4,5. Repeatable.", metavar="LABELS"
    )
    delimiter: str | None = edge_option("Field delimiter, if not a comma or tab.")
    quote: str = edge_option("Quote character, or 'none'.", '"')

    nodes: str | None = node_option(
        "A table of nodes, or the item metadata of Amazon.", metavar="FILE"
    )
    node_id: str | None = node_column("Node ids. [default: id]")
    node_labels: str | None = node_column("Node labels.")
    node_label_separator: str | None = node_option("Separator between the labels of a node.")
    node_text: str | None = node_column("Node texts.")
    node_side: str | None = node_option("source or target.")
    keep_isolated: bool = node_option("Keep nodes without edges.", False)

    split: list[str] | None = network_option(
        "A split, as [NAME=]random, per-source, per-target, chronological, "
        "chronological-per-source, chronological-per-target, cold-source, cold-target or "
        "column:COLUMN. Append :0.8/0.1/0.1 for other shares; +drop, +drop-source or "
        "+drop-target to drop held-out edges of nodes without training edges; +new-pairs to "
        "test on new pairs only; +seed-7 for another seed. Repeatable. [default: edge=random, "
        "link=per-source and, if all edges have times, future=chronological, which links are then "
        "trained on]"
    )
    min_degree: int = network_option("Remove nodes with fewer edges until none are left.", 1)
    drop_repeats: bool = network_option(
        "Keep one of several edges with the same nodes and text.", False
    )
    add: list[Path] | None = network_option(
        "A store of new edges, as `serve` writes it: add its edges, and leave out what was removed "
        "there. Repeatable.",
        metavar="STORE",
    )
    positive: list[str] | None = network_option(
        "Labels that count as links: 4,5. Repeatable. [default: all]", metavar="LABELS"
    )
    tokenizer: str = network_option("minilm, a folder, a Hub name, train:8000, or none.", "auto")
    edges: int = network_option("Edges of the simulated network.", 20_000)
    seed: int = network_option("Seed of the simulated network.", 0)

    def run(self) -> None:
        from edgeformers.data.network import PrepareConfig
        from edgeformers.data.prepare import prepare

        cards: list[DataCard] = []
        graph = prepare(
            self.data,
            self.out,
            nodes=self._node_tables(),
            splits=self.split,
            tokenizer=None if self.tokenizer == "none" else self.tokenizer,
            positive_labels=split_list(self.positive) or (),
            min_degree=self.min_degree,
            drop_repeats=self.drop_repeats,
            add=self.add or (),
            keep_isolated=self.keep_isolated,
            progress=not self.quiet,
            on_error=choose("--on-error", self.on_error, ("stop", "skip")),
            overwrite=self.overwrite,
            config=PrepareConfig(complete=lambda network: cards.append(add_card(network))),
            **self._table_arguments(),
        )
        if self.as_json or not self.quiet:
            print_card(cards[0], graph.path, as_json=self.as_json)

    def _table_arguments(self) -> dict[str, Any]:
        """Arguments of `prepare` about the edges, those that were given."""
        same = "source target text label time edge_type weight keep label_kind label_separator"
        is_simulated = self.data[0] == "simulated"
        values = {name: getattr(self, name) for name in same.split()} | {
            "format": self.format,
            "split": self.split_column,
            "bipartite": False if self.one_node_type else None,
            "directed": False if self.undirected else None,
            "classes": split_list(self.classes),
            "delimiter": "\t" if self.delimiter == "\\t" else self.delimiter,
            "quote": {'"': None, "none": ""}.get(self.quote, self.quote),
            "num_edges": self.edges if is_simulated else None,
            "seed": self.seed if is_simulated else None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def _node_tables(self) -> "list[NodeTable | str]":
        from edgeformers.data.prepare import open_nodes

        columns = {
            "id": self.node_id,
            "labels": self.node_labels,
            "label_separator": self.node_label_separator,
            "text": self.node_text,
            "side": self.node_side,
        }
        given = {name: value for name, value in columns.items() if value is not None}
        on_error = choose("--on-error", self.on_error, ("stop", "skip"))
        if self.nodes is None or not given:
            return [self.nodes] if self.nodes else []
        return [open_nodes(self.nodes, on_error=on_error, **given)]
