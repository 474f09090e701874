"""Git repositories as networks: which author changed which file, with the commit message."""

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
from typing import IO, Any

import pyarrow as pa

from edgeformers.data.table import EdgeTable, OnError, RowErrors
from edgeformers.errors import FormatError, InputError

EXTRA = {"commit": pa.string(), "added": pa.int64(), "deleted": pa.int64()}

HEADER = "%H%x00%ct%x00%aN%x00%aE%x00%B%x00"  # hash, commit time, canonical author, message
LOG = (
    *("log", "-z", f"--format=tformat:{HEADER}", "--encoding=UTF-8", "--numstat", "-M"),
    *("--no-merges", "--date-order", "--reverse", "--diff-algorithm=myers", "-O/dev/null"),
    # the repository's settings may name programs; none of them is run
    *("--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-color"),
)
SETTINGS = ("log.showRoot=true", "diff.renameLimit=1000", "core.fsmonitor=false")

# no user settings, no translated messages, no locks, no prompts, no fetching
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
    """The history of HEAD as edges author -> file, one for each file of each commit.

    Authors are written "Ada <ada@x.org>" after the repository's .mailmap; files are paths at the
    time of the commit. A rename is an edge to the new path; earlier edges keep the old path,
    which is a separate node. Merges are left out; parents come before children, and otherwise
    older commits first. The text is the message without trailers such as Signed-off-by; `added`
    and `deleted` count lines and are null for binary files. Bytes that are not UTF-8 become "�".

    The repository is only read: none of its hooks, filters and pagers run, nothing is fetched,
    and the user's git settings and variables are ignored. In a shallow clone, the oldest commits
    cannot be used, since their own changes are unknown.
    """
    repository = _Repository.open(Path(path).expanduser())
    head = repository.head()
    shallow = repository.shallow_commits()
    errors = RowErrors(on_error)
    return EdgeTable.from_rows(
        lambda: _rows(repository, head, shallow, errors),
        fields=["time"],
        extra=EXTRA,
        origin=f"{path} at {head[:12]}",
        bipartite=True,
        errors=errors,
    )


@dataclass(frozen=True)
class _Repository:
    """A repository and the only way git is called here."""

    folder: Path
    git_dir: Path
    program: str

    @classmethod
    def open(cls, folder: Path) -> "_Repository":
        if folder.name == ".git":
            folder = folder.absolute().parent
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; pass a git repository")
        if not (program := shutil.which("git")):
            raise InputError(
                f"{folder}: reading a repository needs the command 'git', which is not on the "
                "PATH; install it from https://git-scm.com"
            )
        inner = folder / ".git"
        return cls(folder, (inner if inner.exists() else folder).absolute(), program)

    def start(self, *arguments: str, stderr: int | IO[bytes]) -> subprocess.Popen[bytes]:
        # naming the directory keeps git from using a parent folder's repository, and from
        # rejecting one that belongs to another user
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        kept = {k: v for k, v in os.environ.items() if k == "GIT_EXEC_PATH" or k[:4] != "GIT_"}
        return subprocess.Popen(
            [self.program, f"--git-dir={self.git_dir}", "--no-pager", *settings, *arguments],
            cwd=self.folder,
            env={**kept, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )

    def run(self, *arguments: str) -> tuple[str, str, int]:
        """Output, error output and exit status of a git command."""
        process = self.start(*arguments, stderr=subprocess.PIPE)
        output, error = process.communicate()
        return _text(output).strip(), _text(error).strip(), process.returncode

    def head(self) -> str:
        """The commit at HEAD; it is fixed once, so that reading again gives the same edges."""
        commit, error, status = self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if "not a git repository" in error:
            raise InputError(
                f"{self.folder}: not a git repository; pass the top folder of a working copy "
                "(with .git in it) or a bare repository"
            )
        if status and error:
            raise FormatError(f"{self.folder}: git cannot read this repository: {error}")
        if status:
            raise InputError(
                f"{self.folder}: the repository is empty (HEAD is no commit); "
                "check out a branch with commits"
            )
        return commit

    def shallow_commits(self) -> frozenset[str]:
        """The commits at which a shallow clone ends; none in a full one."""
        name, _, _ = self.run("rev-parse", "--git-path", "shallow")
        file = self.folder / name
        return frozenset(file.read_text().split()) if file.is_file() else frozenset()

    def tokens(self, *arguments: str) -> Iterator[bytes]:
        """The NUL-separated output of a git command, while it runs."""
        with tempfile.TemporaryFile() as stderr:
            process = self.start(*arguments, stderr=stderr)
            try:
                assert process.stdout is not None
                rest = b""
                while chunk := process.stdout.read(1 << 16):
                    *tokens, rest = (rest + chunk).split(b"\0")
                    yield from tokens
                status = process.wait()
            finally:
                process.kill()  # if the caller stopped early
                process.communicate()
            if status:
                stderr.seek(0)
                error = _text(stderr.read()).strip()
                raise FormatError(f"{self.folder}: git stopped reading the history: {error}")


def _rows(
    repository: _Repository, head: str, shallow: frozenset[str], errors: RowErrors
) -> Iterator[Mapping[str, Any]]:
    edge: dict[str, Any] | None = None  # what the edges of the current commit share
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
            try:
                edge = _commit_edge(header, shallow)
            except ValueError as error:
                edge = None
                errors.report(
                    f"{repository.folder}: commit {header[0][:12]} {error}, or use on_error='skip'"
                )


def _commit_edge(header: list[str], shallow: frozenset[str]) -> dict[str, Any]:
    """What the edges of a commit share; a ValueError says why they cannot be used."""
    commit, seconds, name, email, message = header
    author = " ".join(filter(None, [name.strip(), f"<{email.strip()}>" if email.strip() else ""]))
    if commit in shallow:
        raise ValueError(
            "is where this shallow clone ends, so its changes are unknown; run "
            "'git fetch --unshallow'"
        )
    if not author:
        raise ValueError("has no author; every edge needs source and target: add one")
    try:
        time = datetime.fromtimestamp(int(seconds), UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"has the invalid time '{seconds}'; correct it") from None
    return {"source": author, "text": strip_trailers(message), "time": time, "commit": commit}


def strip_trailers(message: str) -> str:
    """A commit message without trailers (Signed-off-by, Change-Id, ...), but with its subject."""
    lines = message.strip().splitlines()
    while len(lines) > 1 and (not lines[-1].strip() or TRAILER.match(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def _count(digits: bytes) -> int | None:
    return None if digits == b"-" else int(digits)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")
