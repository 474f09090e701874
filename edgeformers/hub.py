"""Folders on the Hugging Face Hub, downloaded once and then read from the local cache."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeformers.errors import InputError

TIMEOUT = 4.0  # seconds
NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def is_hub_name(name: str) -> bool:
    """Whether a name could be that of a model on the Hub."""
    return NAME.fullmatch(name) is not None


def download_folder(
    name: str, patterns: Sequence[str], *, revision: str | None = None, remedy: str
) -> Path:
    """The cached or downloaded files of a model on the Hub that match a pattern.

    A request with a short timeout comes first: without network, the client's download would retry
    for half a minute.
    """
    import huggingface_hub as hub

    chosen: dict[str, Any] = {} if revision is None else {"revision": revision}
    try:
        if not isinstance(hub.try_to_load_from_cache(name, "config.json", **chosen), str):
            url = hub.hf_hub_url(name, "config.json", **chosen)
            hub.get_hf_file_metadata(url, timeout=TIMEOUT)
        folder = hub.snapshot_download(name, allow_patterns=list(patterns), **chosen)
    except Exception as error:  # the client has no common base class of errors
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"'{name}' is not a folder and could not be downloaded from the Hugging Face Hub "
            f"({reason}); {remedy}"
        ) from error
    return Path(folder)


def upload_folder(folder: Path, name: str, *, private: bool = True) -> None:
    """Upload a folder to the Hub, as a model that is created if necessary."""
    import huggingface_hub as hub

    try:
        api = hub.HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=str(folder))
    except Exception as error:  # the client has no common base class of errors
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{folder} could not be uploaded to '{name}' ({reason}); check the name, the network "
            "and your login (hf auth login)"
        ) from error
