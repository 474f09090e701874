"""Git repositories as networks: who changed which file, the commit message on the edge."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.data.table import EdgeTable, OnError, RowErrors
from edgeformers.errors import FormatError, InputError

EXTRA = {"commit": pa.string(), "added": pa.int64(), "deleted": pa.int64()}

HEADER = "%H%x00%ct%x00%aN%x00%aE%x00%B%x00"  # hash, commit time, canonical author, message
LOG = (
    *("log", "-z", f"--format=tformat:{HEADER}", "--encoding=UTF-8", "--numstat", "-M"),
    *("--no-merges", "--date-order", "--reverse", "--diff-algorithm=myers", "-O/dev/null"),
    # a repository's own settings may name programs: none of them is run
    *("--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-color"),
)
SETTINGS = ("log.showRoot=true", "diff.renameLimit=1000", "core.fsmonitor=false")

# no settings of the user's, no translated messages, no lock, no question, no fetching
ENVIRONMENT = {
    **{"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"},
    **{"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
    **{"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"},
}

NUMSTAT = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
TRAILER = re.compile(
    r"(\w+(-\w+)*-(by|id|on|to)|cc|fixes|closes|refs|link|bug)\s*:|\(cherry picked from commit ",
    re.IGNORECASE,
)


def read_git(path: str | PathLike[str], *, on_error: OnError = "stop") -> EdgeTable:
    """The history behind HEAD as edges author -> file, one for each file of each commit.

    Authors are written "Ada <ada@x.org>" after the repository's .mailmap; files are paths as of
    their commit. Where git sees a rename, the commit's edge goes to the new path; edges of
    earlier commits stay with the old name, which is a node of its own. Merges are left out,
    parents come before children, and otherwise older commits first. The text is the message
    without trailers such as Signed-off-by; `added` and `deleted` count lines and are null for
    binary files. Bytes that are not UTF-8 become "�".

    The repository is only read: no hook, filter or pager of its runs, nothing is fetched, and
    settings and variables of the user's git play no part. In a shallow clone the commits at
    the cut cannot be used: their own changes are unknown.
    """
    repository = _Repository.find(Path(path).expanduser())
    head = repository.head()
    cut = repository.shallow_commits()
    errors = RowErrors(on_error)
    return EdgeTable.from_rows(
        lambda: _rows(repository, head, cut, errors),
        fields=["time"],
        extra=EXTRA,
        origin=f"{path} at {head[:12]}",
        bipartite=True,
        errors=errors,
    )


@dataclass(frozen=True)
class _Repository:
    """A folder, its git directory, and the one way git is called here."""

    folder: Path
    git_dir: Path
    program: str

    @classmethod
    def find(cls, folder: Path) -> "_Repository":
        if folder.name == ".git":
            folder = folder.absolute().parent
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give a git repository")
        if not (program := shutil.which("git")):
            raise InputError(
                f"{folder}: reading a repository needs the command 'git', which is not on the "
                "PATH; install it from https://git-scm.com"
            )
        inner = folder / ".git"
        return cls(folder, (inner if inner.exists() else folder).absolute(), program)

    def command(self, *arguments: str) -> list[str]:
        # naming the directory keeps git from taking a parent folder's repository, and from
        # refusing one that belongs to another user
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        return [self.program, f"--git-dir={self.git_dir}", "--no-pager", *settings, *arguments]

    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name == "GIT_EXEC_PATH"
        }
        return {**kept, **ENVIRONMENT}

    def ask(self, *arguments: str) -> tuple[str, str, int]:
        """What git answered, what it complained of, and its exit status."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        return _text(done.stdout).strip(), _text(done.stderr).strip(), done.returncode

    def head(self) -> str:
        """The commit at HEAD, asked once, so that reading again gives the same edges."""
        commit, complaint, status = self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if "not a git repository" in complaint:
            raise InputError(
                f"{self.folder}: not a git repository; give the top folder of a working copy "
                "(the one with .git in it) or a bare repository"
            )
        if status and complaint:
            raise FormatError(f"{self.folder}: git cannot read this repository: {complaint}")
        if status:
            raise InputError(
                f"{self.folder}: the repository is empty (HEAD names no commit); "
                "commit something, or check out a branch that has commits"
            )
        return commit

    def shallow_commits(self) -> frozenset[str]:
        """The commits at which a shallow clone was cut off; none in a whole one."""
        name, _, _ = self.ask("rev-parse", "--git-path", "shallow")
        cut = self.folder / name
        return frozenset(cut.read_text().split()) if cut.is_file() else frozenset()

    def tokens(self, *arguments: str) -> Iterator[bytes]:
        """The NUL-separated parts of what git prints, as it prints them."""
        with tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
            try:
                assert process.stdout is not None
                rest = b""
                while chunk := process.stdout.read(1 << 16):
                    *parts, rest = (rest + chunk).split(b"\0")
                    yield from parts
                status = process.wait()
            finally:
                process.kill()  # only where the reader stopped early
                process.communicate()
            if status:
                complaints.seek(0)
                complaint = _text(complaints.read()).strip()
                raise FormatError(f"{self.folder}: git stopped reading the history: {complaint}")


def _rows(
    repository: _Repository, head: str, cut: frozenset[str], errors: RowErrors
) -> Iterator[Mapping[str, Any]]:
    edge: dict[str, Any] | None = None
    tokens = repository.tokens(*LOG, head, "--")
    for token in tokens:
        if change := NUMSTAT.fullmatch(token):
            added, deleted, name = change.groups()
            if not name:  # a rename: the old name, then the new one
                _, name = next(tokens), next(tokens)
            if edge:
                counts = {"added": _count(added), "deleted": _count(deleted)}
                yield {**edge, "target": _text(name), **counts}
        elif token:
            header = [_text(part) for part in (token, *(next(tokens) for _ in range(4)))]
            edge = _commit_edge(repository.folder, header, cut, errors)


def _commit_edge(
    folder: Path, header: list[str], cut: frozenset[str], errors: RowErrors
) -> dict[str, Any] | None:
    """What the edges of one commit share, or None where they cannot be used."""
    commit, seconds, name, email, message = header
    author = " ".join(filter(None, [name.strip(), f"<{email.strip()}>" if email.strip() else ""]))
    if commit in cut:
        errors.report(
            f"{folder}: commit {commit[:12]} is where this shallow clone was cut off, so its own "
            "changes are unknown; run 'git fetch --unshallow', or skip it with on_error='skip'"
        )
        return None
    if not author:
        errors.report(
            f"{folder}: commit {commit[:12]} has no author; every edge needs both ends, "
            "skip it with on_error='skip'"
        )
        return None
    try:
        time = datetime.fromtimestamp(int(seconds), UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        errors.report(
            f"{folder}: commit {commit[:12]} has the time '{seconds}', which is no date; "
            "skip it with on_error='skip'"
        )
        return None
    return {"source": author, "text": strip_trailers(message), "time": time, "commit": commit}


def strip_trailers(message: str) -> str:
    """A commit message without its trailers (Signed-off-by, Change-Id, ...); the subject stays."""
    lines = message.strip().splitlines()
    while len(lines) > 1 and (not lines[-1].strip() or TRAILER.match(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def _count(digits: bytes) -> int | None:
    return None if digits == b"-" else int(digits)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")
