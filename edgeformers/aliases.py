"""Old names of settings and tensors: files written by earlier versions stay readable."""

from collections.abc import Container, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

#: Settings that were renamed in 0.2: old dotted name -> current one.
SETTINGS = {
    "edges.beside": "edges.ensemble",
    "edges.consistency": "edges.rdrop",
    "links.beside": "links.ensemble",
    "links.new_nodes": "links.cold_node_rate",
    "model.node_table": "model.node_init",
    "train.accumulate": "train.gradient_accumulation",
    "train.average": "train.ema_decay",
    "train.clip": "train.max_grad_norm",
    "train.decay": "train.lr_schedule",
    "train.eval_batch": "train.eval_batch_size",
    "train.micro_batch": "train.micro_batch_size",
    "train.record": "train.cuda_graphs",
    "train.select": "train.select_metric",
    "train.warmup": "train.warmup_ratio",
}

#: Settings that no longer exist and never changed what is learned; they are ignored.
REMOVED_SETTINGS = frozenset({"train.loss_lag", "train.compile"})

#: Fields of the training state in checkpoints that were renamed in 0.2.
TRAINING_STATE = {"best": "best_score", "worse": "bad_epochs", "micro": "micro_batch_size"}

#: Rows of the experiments' tables that were renamed in 0.2, in records and plans.
ROWS = {
    "edgeformer-e-beside": "edgeformer-e-ensemble",
    "edgeformer-n-beside": "edgeformer-n-ensemble",
    "edgeformer-n-beside-cold": "edgeformer-n-ensemble-cold",
}
ROW_TITLES = {
    "Edgeformer-E beside words, nodes": "Edgeformer-E + ensemble (words, nodes)",
    "Edgeformer-N beside LightGCN, MF, EASE": "Edgeformer-N + ensemble (LightGCN, MF, EASE)",
}

#: Prefixes of tensor names in saved heads.
HEAD_TENSORS = {"beside.": "ensemble."}

#: Command-line options.
OPTIONS = {"--judge": "--ablate-inputs"}

#: Fields of dataclasses in saved JSON files, such as data cards and records.
FIELDS = {
    "what": "experiment",
    "about": "network_info",
    "labelled": "labeled",
    "unlabelled": "unlabeled",
    "made": "spec",
    "sees": "inputs",
}


def current_field(name: str, known: Container[str]) -> str:
    """The current name of a saved dataclass field, given the names the dataclass has now."""
    current = FIELDS.get(name, name)
    return current if name not in known and current in known else name


def current_settings(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name, with old names replaced and removed settings left out."""
    return {
        current_setting(name): value for name, value in flat.items() if name not in REMOVED_SETTINGS
    }


def current_setting(name: str) -> str:
    """The current dotted name of a setting."""
    return SETTINGS.get(name, name)


def current_training_state(values: Mapping[str, Any]) -> dict[str, Any]:
    """The training state of a checkpoint, with old field names replaced."""
    return {TRAINING_STATE.get(name, name): value for name, value in values.items()}


def current_tensors(state: Mapping[str, T]) -> dict[str, T]:
    """A saved head's tensors, with old prefixes replaced."""
    return {_current_tensor(name): value for name, value in state.items()}


def _current_tensor(name: str) -> str:
    for old, new in HEAD_TENSORS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def current_names(text: str) -> str:
    """The JSON text of a record or plan, with old row names, titles and settings replaced."""
    for old, new in {**ROWS, **ROW_TITLES, **SETTINGS}.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return text


def current_option(argument: str) -> str:
    """A command-line argument, with the old name of an option replaced."""
    return OPTIONS.get(argument, argument)
