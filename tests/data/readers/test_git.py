import os
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from edgeformers.data.readers.git import ENVIRONMENT, read_git, strip_trailers
from edgeformers.errors import FormatError, InputError

pytestmark = pytest.mark.skipif(
    subprocess.run(["git", "--version"], capture_output=True).returncode != 0, reason="needs git"
)

START = 1_700_000_000  # seconds; commits of a test are a minute apart


class Repository:
    """A repository written by the git command, independent of the user's settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits = 0
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(
        self,
        *arguments: str | bytes,
        author: str = "Ada <ada@x.org>",
        at: int = START,
        stdin: bytes = b"",
        **variables: str,
    ) -> str:
        name, _, email = author.rpartition("<")
        person = {"NAME": name.strip(), "EMAIL": email.rstrip(">")}
        env = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_DATE": f"{at - 5} +0200",
            "GIT_COMMITTER_DATE": f"{at} +0200",
            **{f"GIT_AUTHOR_{k}": v for k, v in person.items()},
            "GIT_COMMITTER_NAME": "Robot",
            "GIT_COMMITTER_EMAIL": "robot@x.org",
            **variables,
        }
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=env, input=stdin, check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    def commit(self, message: str | bytes, author: str = "Ada <ada@x.org>", **files) -> str:
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        at = START + 60 * self.commits
        self.commits += 1
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, author=author, at=at)
        return self.git("rev-parse", "HEAD")

    def raw_commit(self, people: bytes, message: bytes = b"Odd") -> None:
        """Set HEAD to a commit that the git command would not write."""
        self.git("add", "-A")
        tree = self.git("write-tree").encode()
        raw = b"tree " + tree + b"\n" + people + b"\n\n" + message + b"\n"
        command = ("hash-object", "-t", "commit", "-w", "--stdin", "--literally")
        self.git("update-ref", "HEAD", self.git(*command, stdin=raw))


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repo")


def rows(table):
    return table.to_arrow().to_pylist()


def rows_of(repository):
    return rows(read_git(repository.folder))


def test_one_edge_for_each_file_of_each_commit_oldest_first(repository):
    first = repository.commit("Begin\n\nTwo files.", a=b"1\n2\n", b=b"1\n")
    second = repository.commit("Go on", "Grace <grace@x.org>", a=b"1\n3\n4\n")
    table = read_git(repository.folder)
    start = datetime(2023, 11, 14, 22, 13, 20)
    assert rows(table) == [
        {
            "source": author,
            "target": target,
            "text": text,
            "time": time,
            "commit": commit,
            "added": added,
            "deleted": deleted,
        }
        for author, target, text, time, commit, added, deleted in [
            ("Ada <ada@x.org>", "a", "Begin\n\nTwo files.", start, first, 2, 0),
            ("Ada <ada@x.org>", "b", "Begin\n\nTwo files.", start, first, 1, 0),
            ("Grace <grace@x.org>", "a", "Go on", start + timedelta(minutes=1), second, 2, 1),
        ]
    ]
    assert table.bipartite
    assert table.directed
    assert second[:12] in table.origin


def test_commits_made_after_opening_are_not_in_the_table(repository):
    repository.commit("One", a=b"1")
    table = read_git(repository.folder)
    repository.commit("Two", a=b"2")
    assert [row["text"] for row in rows(table)] == ["One"]
    assert [row["text"] for row in rows(table)] == ["One"]


def test_a_rename_is_an_edge_to_the_new_path_and_the_old_path_keeps_its_edges(repository):
    repository.commit("Write", old=b"a\nb\nc\nd\n")
    repository.git("mv", "old", "new name\twith tab\nand break")
    repository.commit("Move")
    assert [(row["target"], row["added"], row["deleted"]) for row in rows_of(repository)] == [
        ("old", 4, 0),
        ("new name\twith tab\nand break", 0, 0),
    ]


def test_deletions_are_edges_and_binary_files_have_no_line_counts(repository):
    repository.commit("Add", picture=b"\0\1\2", note=b"1\n2\n")
    (repository.folder / "note").unlink()
    repository.commit("Remove")
    counts = {(r["text"], r["target"]): (r["added"], r["deleted"]) for r in rows_of(repository)}
    assert counts == {
        ("Add", "note"): (2, 0),
        ("Add", "picture"): (None, None),
        ("Remove", "note"): (0, 2),
    }


def test_merges_and_empty_commits_have_no_edges(repository):
    repository.commit("Base", a=b"1\n")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("Side", b=b"1\n")
    repository.git("checkout", "-q", "main")
    repository.commit("Main", a=b"2\n")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "side", at=START + 600)
    repository.commit("Nothing")
    assert [row["text"] for row in rows_of(repository)] == ["Base", "Side", "Main"]


def test_authors_follow_the_mailmap_in_working_copies_and_bare_clones(repository, tmp_path):
    repository.commit("One", "ada <ada@old.org>", a=b"1")
    repository.commit("Two", **{".mailmap": b"Ada <ada@x.org> <ada@old.org>\n"})
    expected = ["Ada <ada@x.org>"] * 2
    assert [row["source"] for row in rows_of(repository)] == expected
    repository.git("clone", "-q", "--bare", str(repository.folder), str(tmp_path / "bare"))
    assert [row["source"] for row in rows(read_git(tmp_path / "bare"))] == expected


def test_a_linked_working_tree_and_the_git_folder_itself_can_be_read(repository, tmp_path):
    repository.commit("One", a=b"1")
    repository.git("worktree", "add", "-q", str(tmp_path / "linked"))
    whole = rows_of(repository)
    assert rows(read_git(tmp_path / "linked")) == whole
    assert rows(read_git(repository.folder / ".git")) == whole


def test_any_bytes_in_messages_and_paths_are_read(repository):
    path = os.fsencode(repository.folder) + b"/f\xff\xc3\xa9"
    try:
        Path(os.fsdecode(path)).write_bytes(b"1")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    people = b"author A <a@x> 1700000000 +0000\ncommitter A <a@x> 1700000000 +0000"
    repository.raw_commit(people, b"caf\xe9 \x01 tab\there\n\n1\t1\tnot a file")
    [row] = rows_of(repository)
    assert row["target"] == "f�é"
    assert row["text"] == "caf� \x01 tab\there\n\n1\t1\tnot a file"


def test_a_message_in_a_declared_encoding_is_decoded(repository):
    repository.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repository.commit("café".encode("latin-1"), a=b"1")
    assert rows_of(repository)[0]["text"] == "café"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Fix it\n\nSigned-off-by: Ada <a@x>\nCo-authored-by: B <b@x>\n", "Fix it"),
        ("Fix it\n\nWhy.\n\nFixes: #3\n\nChange-Id: I12\n", "Fix it\n\nWhy."),
        ("Fix\n\n(cherry picked from commit 123)\n", "Fix"),
        ("Fix\n\nReviewed-by: A\nis a line\n", "Fix\n\nReviewed-by: A\nis a line"),
        ("Fix\n\nNote: this stays.", "Fix\n\nNote: this stays."),
        ("Signed-off-by: only a subject", "Signed-off-by: only a subject"),
        ("", ""),
    ],
)
def test_trailers_are_removed(message, text):
    assert strip_trailers(message) == text


def test_environment_and_settings_are_ignored_and_run_no_programs(
    repository, tmp_path, monkeypatch
):
    repository.commit("One", **{"a": b"1\n2\n3\n4\n", ".gitattributes": b"* diff=spy\n"})
    repository.git("mv", "a", "b")
    repository.commit("Two", c=b"1\n")
    expected = rows_of(repository)

    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    spy.chmod(0o755)
    for name in ("diff.external", "diff.spy.textconv", "diff.spy.command", "core.pager"):
        repository.git("config", name, str(spy))
    repository.git("config", "core.fsmonitor", str(spy))
    repository.git("config", "gpg.program", str(spy))
    for name, value in [("log.showRoot", "false"), ("diff.renames", "false")]:
        repository.git("config", name, value)
    repository.git("config", "log.showSignature", "true")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(spy))
    assert rows_of(repository) == expected
    assert not (tmp_path / "ran").exists()


def test_a_repository_of_another_user_can_be_read(repository, monkeypatch):
    repository.commit("One", a=b"1")
    another = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        repository.git("log", **another)
    assert b"safe.directory" in refusal.value.stderr
    monkeypatch.setitem(ENVIRONMENT, *another.popitem())
    assert len(rows_of(repository)) == 1


def test_reading_changes_no_file_of_the_repository(repository):
    repository.commit("One", a=b"1")

    def state():
        files = sorted(p for p in repository.folder.rglob("*") if p.is_file())
        return [(p, p.stat().st_mtime_ns, p.read_bytes()) for p in files]

    before = state()
    assert len(rows_of(repository)) == 1
    assert state() == before


def test_the_oldest_commits_of_a_shallow_clone_are_reported_or_skipped(repository, tmp_path):
    for n in range(3):
        repository.commit(f"Number {n}", a=b"%d" % n)
    url = f"file://{repository.folder}"
    repository.git("clone", "-q", "--depth", "2", url, str(tmp_path / "shallow"))
    with pytest.raises(InputError, match=r"shallow clone.*git fetch --unshallow"):
        read_git(tmp_path / "shallow").to_arrow()
    table = read_git(tmp_path / "shallow", on_error="skip")
    assert [row["text"] for row in rows(table)] == ["Number 2"]
    assert table.errors.count == 1


def test_an_author_may_lack_name_or_address_but_not_both(repository):
    (repository.folder / "a").write_bytes(b"1")
    committer = b"committer R <r@x> 1700000000 +0000"
    repository.raw_commit(b"author Ada <> 1700000000 +0000\n" + committer)
    assert rows_of(repository)[0]["source"] == "Ada"
    repository.raw_commit(b"author  <ada@x> 1700000000 +0000\n" + committer)
    assert rows_of(repository)[0]["source"] == "<ada@x>"
    repository.raw_commit(b"author  <> 1700000000 +0000\n" + committer)
    with pytest.raises(InputError, match="no author"):
        rows_of(repository)


def test_an_invalid_commit_time_is_reported(repository):
    (repository.folder / "a").write_bytes(b"1")
    times = b"author A <a@x> 1700000000 +0000\ncommitter A <a@x> 999999999999999 +0000"
    repository.raw_commit(times)
    with pytest.raises(InputError, match="'999999999999999'"):
        rows_of(repository)


def test_other_folders_are_rejected(tmp_path, repository):
    (repository.folder / "inner").mkdir()
    for folder in (tmp_path, repository.folder / "inner"):
        with pytest.raises(InputError, match="not a git repository"):
            read_git(folder)
    with pytest.raises(InputError, match="gone: no such folder"):
        read_git(tmp_path / "gone")


def test_an_empty_repository_is_rejected(repository):
    with pytest.raises(InputError, match="repo: the repository is empty"):
        read_git(repository.folder)


def test_a_missing_git_command_is_reported(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"'git'.* PATH"):
        read_git(repository.folder)


def test_a_damaged_repository_is_reported_with_the_error_of_git(repository):
    repository.commit("One", a=b"1")
    table = read_git(repository.folder)
    tree = repository.git("rev-parse", "HEAD^{tree}")
    (repository.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(FormatError, match=f"git stopped reading the history: .*{tree}"):
        table.to_arrow()
    (repository.folder / ".git" / "config").write_text("[broken")
    with pytest.raises(FormatError, match=r"git cannot read this repository: .*bad config"):
        read_git(repository.folder)


def test_reading_may_stop_early(repository):
    repository.commit("One", a=b"1", b=b"2")
    table = read_git(repository.folder)
    batches = table.batches()
    next(batches)
    batches.close()
    assert len(rows(table)) == 2
