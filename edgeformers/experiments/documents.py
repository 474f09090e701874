"""Generated tables and claims in documents: marked blocks, rendered from records."""

import re
from pathlib import Path

from edgeformers.errors import InputError, suggest
from edgeformers.experiments.claims import check_claims
from edgeformers.experiments.claims_table import claims_markdown, claims_table, network_claims
from edgeformers.experiments.record import Record
from edgeformers.experiments.render import table_markdown, to_markdown
from edgeformers.experiments.tables import PROTOCOLS, make_tables
from edgeformers.files import write_atomic

#: <!-- table: NAME from PATH --> or <!-- claims: ... -->, the generated text, <!-- end -->
#: <!-- claims: PROTOCOL from PATH PATH ... --> is one table over several experiments on a network.
BLOCK = re.compile(
    r"(?P<start><!-- (?P<kind>table|claims): (?P<name>\S+) from (?P<paths>\S+(?: \S+)*) -->\n)"
    r"(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def render_document(text: str, root: Path) -> str:
    """The document with every block rendered again; record paths are relative to `root`."""

    def render(block: re.Match[str]) -> str:
        files = [root / path for path in block["paths"].split()]
        if block["kind"] == "claims" and block["name"] in PROTOCOLS:
            body = claims_table(network_claims(map(Record.read, files), block["name"]))
        else:
            body = (table_block if block["kind"] == "table" else claims_block)(
                files[0], block["name"]
            )
        return block["start"] + body + block["end"]

    return BLOCK.sub(render, text)


def update_document(path: Path, root: Path) -> bool:
    """Render the blocks of a document again; returns whether anything changed."""
    before = path.read_text(encoding="utf-8")
    after = render_document(before, root)
    if after != before:
        write_atomic(path, after)
    return after != before


def table_block(record_file: Path, name: str) -> str:
    """One table of a record in Markdown, or all tables under the record's own name."""
    tables = make_tables(Record.read(record_file))
    if name == record_file.stem:
        return to_markdown(tables)
    known = {table.name: table for table in tables}
    if name not in known:
        raise InputError(f"{record_file} has no table '{name}'; {suggest(name, known)}")
    return table_markdown(known[name])


def claims_block(record_file: Path, name: str) -> str:
    """The claims about one table of a record, or all claims under the record's own name."""
    checked = check_claims(Record.read(record_file))
    if name == record_file.stem:
        return claims_markdown(checked)
    known = dict.fromkeys(claim.table for claim in checked)
    if name not in known:
        raise InputError(f"{record_file} has no claims about '{name}'; {suggest(name, known)}")
    return claims_table([claim for claim in checked if claim.table == name])
