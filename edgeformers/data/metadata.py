"""NetworkMeta: the metadata of a network, stored in network.json."""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeformers.data.storage import read_checked_record, read_record, write_record
from edgeformers.data.table import LabelKind
from edgeformers.errors import FormatError, InputError
from edgeformers.files import check_no_foreign_files

FORMAT = "edgeformers-network"
SCHEMA_VERSION = 1
METADATA = "network.json"

#: Files that are added to the folder of a network after its metadata.
_ADDED = re.compile(
    r"""card\.(html|json) | \.card\.(html|json)\.[\d-]+ | splits/
    | tokens/([0-9a-f]{16}/((tokens|tokenizer)\.json | (edges|nodes)\.(ids|offsets)\.npy)?)?
    | vectors/([0-9a-f]{16}/(vectors\.(json|npy))?)?
    | (tokens|vectors)/\.[0-9a-f]{16}\.partial-.*""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class NetworkMeta:
    """The contents of network.json."""

    format: str = FORMAT
    schema_version: int = SCHEMA_VERSION
    library_version: str
    num_nodes: int
    num_sources: int  # of all nodes, if there is one node type
    num_edges: int
    is_bipartite: bool
    is_directed: bool
    has_published_order: bool = False  # validation and test links are in their published order
    label_kind: LabelKind | None = None
    label_names: list[str] = field(default_factory=list)
    edge_type_names: list[str] = field(default_factory=list)
    node_label_names: list[str] = field(default_factory=list)
    positive_labels: list[str] = field(default_factory=list)  # labels of links; empty: all edges
    neighbors: dict[str, list[int]] = field(default_factory=dict)  # of a recipe, per side
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> config and counts
    has_node_texts: bool = False
    columns: list[str] = field(default_factory=list)  # of edges.parquet
    origin: str = ""
    skipped: dict[str, Any] = field(default_factory=dict)  # unusable rows of the input
    notes: list[str] = field(default_factory=list)  # for the data card
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # size and SHA-256 of each file

    def write(self, folder: Path) -> None:
        write_record(folder / METADATA, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "NetworkMeta":
        """The metadata of the network in a folder."""
        file = path / METADATA
        if not file.is_file():
            raise FormatError(
                f"{path} is not a prepared network: it has no {METADATA}; "
                f"create one with: edgeformers prepare EDGES.csv -o {path}"
            )
        values = read_record(file)
        if values.get("format") != FORMAT:
            raise FormatError(f"{file} does not describe a network; choose another folder")
        if values.get("schema_version") != SCHEMA_VERSION:
            raise FormatError(
                f"{file} has schema version {values.get('schema_version')}, not {SCHEMA_VERSION}; "
                "prepare the network again from its table"
            )
        return cls(**read_checked_record(file))


def check_replaceable(folder: Path) -> None:
    """Raise an InputError if a folder is not a network, or contains other files too."""
    file = folder / METADATA
    try:
        values = read_checked_record(file)
        if values.get("format") != FORMAT:  # any schema version may be replaced
            raise FormatError(f"{file} does not describe a network")
    except FormatError as error:
        raise InputError(
            f"{folder} is not a prepared network; it is not overwritten ({error})"
            if file.exists()
            else f"{folder} is not a prepared network; it is not overwritten"
        ) from error
    known = {METADATA, *values.get("files", ())}
    check_no_foreign_files(folder, lambda name: name in known or bool(_ADDED.fullmatch(name)))
