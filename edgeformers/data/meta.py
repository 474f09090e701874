"""NetworkMeta: everything about a network that is not an array."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeformers.data.arrays import checked_record, read_record, write_record
from edgeformers.data.table import LabelKind
from edgeformers.errors import FormatError

FORMAT = "edgeformers-network"
SCHEMA_VERSION = 1
METADATA = "network.json"


@dataclass(frozen=True, kw_only=True)
class NetworkMeta:
    """Everything about a network that is not an array; the contents of network.json."""

    format: str = FORMAT
    schema_version: int = SCHEMA_VERSION
    library_version: str
    num_nodes: int
    num_sources: int  # of a bipartite network; all nodes otherwise
    num_edges: int
    is_bipartite: bool
    is_directed: bool
    label_kind: LabelKind | None = None
    label_names: list[str] = field(default_factory=list)
    edge_type_names: list[str] = field(default_factory=list)
    node_label_names: list[str] = field(default_factory=list)
    positive_labels: list[str] = field(default_factory=list)  # what counts as a link; empty: all
    neighbors: dict[str, list[int]] = field(default_factory=dict)  # of a paper recipe, per side
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> config and counts
    has_node_texts: bool = False
    columns: list[str] = field(default_factory=list)  # of edges.parquet
    origin: str = ""
    skipped: dict[str, Any] = field(default_factory=dict)  # rows left out while reading
    notes: list[str] = field(default_factory=list)  # what was decided while preparing
    files: dict[str, dict[str, Any]] = field(default_factory=dict)  # size and SHA-256 of each file

    def write(self, folder: Path) -> None:
        write_record(folder / METADATA, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "NetworkMeta":
        """The metadata of the network in a folder; what is not one is named."""
        file = path / METADATA
        if not file.is_file():
            raise FormatError(
                f"{path} is not a prepared network: it has no {METADATA}; "
                f"make one with: edgeformers prepare EDGES.csv -o {path}"
            )
        values = read_record(file)
        if values.get("format") != FORMAT:
            raise FormatError(
                f"{file} does not describe a network of this library; name another folder"
            )
        if values.get("schema_version") != SCHEMA_VERSION:
            raise FormatError(
                f"{file} has schema version {values.get('schema_version')}, this library reads "
                f"{SCHEMA_VERSION}; prepare the network again from its table"
            )
        return cls(**checked_record(file))
