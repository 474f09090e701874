"""What a folder holds, to be compared."""


def contents(folder):
    """Every file below a folder by its path, hidden ones too."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
