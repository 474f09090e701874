"""Errors of the operating system as one sentence: the path, the cause and the remedy."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeformers.errors import EdgeformersError, FileError

_ELSEWHERE = "choose another path"
#: What an operating system's error means, and what to do about it.
_CAUSES = {
    errno.ENOSPC: ("the disk is full", "free some space and run the same command again"),
    errno.EDQUOT: ("your disk quota is used up", "free some space and run the same command again"),
    errno.EFBIG: (
        "the file is larger than allowed",
        "raise the limit (ulimit -f) or " + _ELSEWHERE,
    ),
    errno.EROFS: ("the file system is read-only", _ELSEWHERE),
    errno.EACCES: ("permission denied", f"change the permissions or {_ELSEWHERE}"),
    errno.EPERM: ("operation not permitted", f"change the permissions or {_ELSEWHERE}"),
    errno.ENOENT: ("no such file or folder", "check the path"),
    errno.ENOTDIR: ("a part of the path is not a folder", "check the path"),
    errno.EEXIST: ("a part of the path is not a folder", "check the path"),
    errno.EISDIR: ("it is a folder", _ELSEWHERE),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n)"),
    errno.EIO: ("the disk reports an error", f"check the disk or {_ELSEWHERE}"),
}
_MEMORY = ("out of memory", "close other programs or use a larger machine")
_EXHAUSTED = (_MEMORY, *(_CAUSES[c] for c in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))
_TEMPORARY = ("there is no usable temporary folder", "set TMPDIR to a folder with free space")


@contextmanager
def writing(out: Path, temporary: Path | None = None) -> Iterator[None]:
    """Turn errors of the disk and the memory into a FileError that names the output.

    With `temporary`, the file or folder that is written in place of the output, the block may read
    other files: only a lack of space and errors that name `temporary` are about the output.
    """
    try:
        yield
    except EdgeformersError:
        raise
    except Exception as error:
        cause, name = _cause(error), getattr(error, "filename", None)
        is_output = temporary is None or cause in _EXHAUSTED or _is_below(name, temporary)
        if cause is None or not is_output:
            raise
        raised = FileError(f"{out} cannot be written: {'; '.join(cause)}")
        raised.errno = getattr(error, "errno", None)
        raise raised from error


def file_error_sentence(error: OSError) -> str:
    """One sentence about an error of the operating system: the file, the cause and the remedy."""
    if isinstance(error, EdgeformersError):
        return str(error)
    problem, remedy = _cause(error) or (str(error.strerror or error), "check the path")
    if error.filename is None and problem != _TEMPORARY[0]:
        problem = str(error)  # which may name the file
    return "; ".join(
        [problem if error.filename is None else f"{error.filename}: {problem}", remedy]
    )


def _cause(error: Exception) -> tuple[str, str] | None:
    """What went wrong, and the remedy; None if the disk and the memory are not to blame.

    Errors of Rust, DuckDB and Arrow are recognized by their text, because they have no code.
    """
    text = str(error)
    code = getattr(error, "errno", None) if isinstance(error, OSError) else None
    if code is not None:
        no_temporary = code == errno.ENOENT and "temporary directory" in text
        return _TEMPORARY if no_temporary else _CAUSES.get(code)
    is_short_write = isinstance(error, OSError) and text.endswith(" written")  # of numpy
    if is_short_write or "failed to offload" in text:  # DuckDB has no space to sort in
        return _CAUSES[errno.ENOSPC]
    if isinstance(error, MemoryError) or text.startswith("Out of Memory Error"):
        return _MEMORY
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return next((_CAUSES[code] for code in codes if os.strerror(code) in text), None)


def _is_below(name: object, folder: Path) -> bool:
    return isinstance(name, str | os.PathLike) and folder in (Path(name), *Path(name).parents)
