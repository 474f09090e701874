"""Tables and claims in documents: marked blocks made from records, and checked to be so."""

import re
from pathlib import Path

from edgeformers.errors import InputError, suggest
from edgeformers.experiments.claims import check_claims, claims_block, claims_text
from edgeformers.experiments.record import Record
from edgeformers.experiments.render import markdown_table, to_markdown
from edgeformers.experiments.tables import make_tables
from edgeformers.files import write_atomic

#: <!-- table: NAME from PATH --> or <!-- claims: ... -->, then what was made, then <!-- end -->
BLOCK = re.compile(
    r"(?P<open><!-- (?P<kind>table|claims): (?P<name>\S+) from (?P<path>\S+) -->\n)"
    r"(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def render_document(text: str, root: Path) -> str:
    """A document with every block made anew; paths in it are below `root`."""
    makers = {"table": table_text, "claims": verdict_text}
    return BLOCK.sub(
        lambda found: (
            found["open"]
            + makers[found["kind"]](root / found["path"], found["name"])
            + found["end"]
        ),
        text,
    )


def update_document(path: Path, root: Path) -> bool:
    """Make the blocks of a document anew; whether anything changed."""
    before = path.read_text(encoding="utf-8")
    after = render_document(before, root)
    if after != before:
        write_atomic(path, after)
    return after != before


def table_text(record_file: Path, name: str) -> str:
    """One table of a record by its name; the record's own name stands for all of them."""
    tables = make_tables(Record.read(record_file))
    if name == record_file.stem:
        return to_markdown(tables)
    known = {table.name: table for table in tables}
    if name not in known:
        raise InputError(f"{record_file} has no table '{name}'; {suggest(name, known)}")
    return markdown_table(known[name])


def verdict_text(record_file: Path, name: str) -> str:
    """What the paper claims of one table of a record; its own name stands for all of them."""
    checked = check_claims(Record.read(record_file))
    if name == record_file.stem:
        return claims_text(checked)
    known = list(dict.fromkeys(one.table for one in checked))
    if name not in known:
        raise InputError(f"{record_file}: nothing is claimed of '{name}'; {suggest(name, known)}")
    return claims_block([one for one in checked if one.table == name])
