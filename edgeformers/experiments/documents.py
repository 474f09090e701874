"""Tables in documents: marked blocks that are made from records, and checked to be so."""

import re
from pathlib import Path

from edgeformers.errors import InputError, nearest
from edgeformers.experiments.record import Record
from edgeformers.experiments.render import markdown_table, to_markdown
from edgeformers.experiments.tables import make_tables
from edgeformers.report.files import write_text_whole

#: <!-- table: NAME from PATH -->, then what was made, then <!-- end -->
BLOCK = re.compile(
    r"(?P<open><!-- table: (?P<name>\S+) from (?P<path>\S+) -->\n)"
    r"(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def render_document(text: str, root: Path) -> str:
    """A document with every block made anew; paths in it are below `root`."""
    return BLOCK.sub(
        lambda found: (
            found["open"] + block_text(root / found["path"], found["name"]) + found["end"]
        ),
        text,
    )


def update_document(path: Path, root: Path) -> bool:
    """Make the blocks of a document anew; whether anything changed."""
    before = path.read_text(encoding="utf-8")
    after = render_document(before, root)
    if after != before:
        write_text_whole(path, after)
    return after != before


def block_text(record_file: Path, name: str) -> str:
    """One table of a record by its name; the record's own name stands for all of them."""
    tables = make_tables(Record.read(record_file))
    if name == record_file.stem:
        return to_markdown(tables)
    known = {table.name: table for table in tables}
    if name not in known:
        raise InputError(f"{record_file} has no table '{name}'; {nearest(name, known)}")
    return markdown_table(known[name])
