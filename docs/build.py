"""Build the site with Zensical: python docs/build.py, or make docs.

Pages are copied to build/docs, where tables, settings and notebooks are filled in; the site is
written to build/site. Zensical checks all links and anchors.
"""

import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import griffe
import nbformat

from edgeformers.experiments.documents import render_document

DOCS = Path(__file__).parent
ROOT = DOCS.parent
STAGE = ROOT / "build" / "docs"
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")  # part of the site, at home beside the README
TABLES = "results_tables.md"
SETTINGS = "settings_reference.md"
NOT_PAGES = shutil.ignore_patterns("*.py", "__pycache__", "*.ipynb")


def main() -> None:
    """Stage the pages and build the site; any warning fails."""
    stage(STAGE)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


def stage(folder: Path) -> None:
    """Write all pages of the site to a folder, with everything that is generated."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=NOT_PAGES)
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        (folder / name.lower()).write_text(text.replace("](docs/", "]("), encoding="utf-8")
    for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
        write_notebook(notebook, folder / "notebooks")
    tables = (DOCS / TABLES).read_text(encoding="utf-8")
    (folder / TABLES).write_text(render_document(tables, ROOT), encoding="utf-8")
    settings = (DOCS / SETTINGS).read_text(encoding="utf-8")
    filled = settings.replace("<!-- settings -->", "\n".join(settings_tables()))
    (folder / SETTINGS).write_text(filled, encoding="utf-8")
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"(\]\([\w/.-]+)\.ipynb", r"\1.md", text), encoding="utf-8")


def write_notebook(notebook: Path, folder: Path) -> None:
    """Write a saved notebook as a page with its pictures.

    By hand: nbconvert brings a dozen packages, and templates that not every environment finds.
    """
    blocks = []
    for number, cell in enumerate(nbformat.read(notebook, as_version=4).cells):
        if cell.cell_type == "markdown":
            blocks.append(cell.source)
            continue
        blocks.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                picture = f"{notebook.stem}-{number}.png"
                (folder / picture).write_bytes(b64decode(data["image/png"]))
                blocks.append(f"![Output of the cell above]({picture})")
            else:
                blocks.append(f"```\n{data['text/plain'].rstrip()}\n```")
    page = folder / f"{notebook.stem}.md"
    page.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def settings_tables() -> Iterator[str]:
    """Every setting of a run with its default, a table per section of the config."""
    extensions = griffe.load_extensions(str(DOCS / "field_comments.py"))
    package = griffe.load("edgeformers", search_paths=[str(ROOT)], extensions=extensions)
    for section in fields_of(package["config.RunConfig"]):
        settings = package["config"].members.get(str(section.annotation))
        if not isinstance(settings, griffe.Class) or settings.docstring is None:
            continue
        yield f"## {section.name}\n\n{settings.docstring.value}\n"
        yield "| setting | type | default | |\n|---|---|---|---|"
        for setting in fields_of(settings):
            meaning = setting.docstring.value if setting.docstring else ""
            cells = f"`{section.name}.{setting.name}`", f"`{setting.annotation}`"
            yield table_row(*cells, f"`{default_of(setting)}`", meaning)
        yield ""


def fields_of(settings: griffe.Object | griffe.Alias) -> list[griffe.Attribute]:
    """The fields of a dataclass, in their order."""
    return [one for one in settings.members.values() if isinstance(one, griffe.Attribute)]


def default_of(setting: griffe.Attribute) -> str:
    """A default as a reader wants it: field(default_factory=lambda: [8]) is [8]."""
    factory = re.fullmatch(r"field\(default_factory=(?:lambda: )?(.*)\)", str(setting.value))
    return factory[1] if factory else str(setting.value)


def table_row(*cells: str) -> str:
    """A row of a Markdown table."""
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    main()
