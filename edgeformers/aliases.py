"""Old names of settings, models and tensors: files of earlier versions stay readable."""

import json
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

#: Settings that are newer than some config.toml files, with the value that these files imply.
NEWER_SETTINGS: Mapping[str, Any] = {
    "links.cached_negatives": 0,
    "model.node_prior": False,
    "model.node_shrinkage": 0.0,
    "model.text_layers": 1,
    "train.replay": 3.0,
    "train.shard_nodes": None,
    "train.start_from": "",
}

#: Fields of the training state in checkpoints that were renamed in 0.2.
TRAINING_STATE = {"best": "best_score", "worse": "bad_epochs", "micro": "micro_batch_size"}

#: Rows of the experiments' tables that were renamed in 0.2, in records and plans.
ROWS = {
    "edgeformer-e-beside": "edgeformer-e-ensemble",
    "edgeformer-n-beside": "edgeformer-n-ensemble",
    "edgeformer-n-beside-cold": "edgeformer-n-ensemble-cold",
}
_ENSEMBLE_TITLE = "Edgeformer-N + ensemble (LightGCN, ALS, EASE, times)"
ROW_TITLES = {
    "Edgeformer-E beside words, nodes": "Edgeformer-E + ensemble (words, nodes)",
    "Edgeformer-N beside LightGCN, MF, EASE": _ENSEMBLE_TITLE,
    "Edgeformer-N + ensemble (LightGCN, MF, EASE)": _ENSEMBLE_TITLE,
    "Edgeformer-N + ensemble (LightGCN, ALS, EASE)": _ENSEMBLE_TITLE,
}

#: Models of 0.1 whose name or title now belongs to another model: their current name and title.
#: Those that are not in the registry are only found in records of experiments.
MODELS_0_1 = {
    "als": ("als", "ALS"),  # its title was MF
    "mean-sage": ("mean-sage-words", "MeanSAGE+words"),
    "max-sage": ("max-sage-words", "MaxSAGE+words"),
    "gin": ("gin-words", "GIN+words"),
    "graphformers-n": ("graphformers-n-joined", "GraphFormers, joined text"),
    "graphformers": ("graphformers-edges", "GraphFormers, edge texts"),
    "bert-max-sage": ("bert-max-sage-edges", "BERT+MaxSAGE, edge texts"),
    "ehgnn": ("ehgnn-nodes", "EHGNN+nodes"),
    "bert-ehgnn": ("bert-ehgnn-nodes", "BERT+EHGNN+nodes"),
}
#: The version of records and plans in which these names have their current meaning.
RECORD_VERSION = 2

#: Prefixes of tensor names in saved heads.
HEAD_TENSORS = {"beside.": "ensemble."}

#: Command-line options.
OPTIONS = {"--judge": "--ablate-inputs", "--verify": "--full"}

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
    """Settings by dotted name, with old names replaced and removed settings left out.

    If any name is one of 0.1, so is the model.
    """
    current = {
        current_setting(name): value for name, value in flat.items() if name not in REMOVED_SETTINGS
    }
    if flat.keys() & SETTINGS.keys() and "model.name" in current:
        current["model.name"] = _current_row(current["model.name"])
    return current


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


def current_model(
    name: str, model_config: Mapping[str, Any], encoder_config: Mapping[str, Any]
) -> str:
    """The current name of a saved model; its settings show whether 0.1 saved it."""
    if name in ("mean-sage", "max-sage", "gin"):
        is_old = "words" in encoder_config
    elif name in ("graphformers", "bert-max-sage"):
        is_old = "node_tokens" not in model_config
    elif name in ("ehgnn", "bert-ehgnn"):
        is_old = "layers" not in model_config
    else:
        is_old = name == "graphformers-n" and "joined_tokens" in model_config
    return _current_row(name) if is_old else name


def name_in_0_1(name: str) -> str | None:
    """The name in 0.1 of a model that has another name now, if it is one."""
    names = {new: old for old, (new, _) in MODELS_0_1.items() if new != old}
    return names.get(name)


def current_names(text: str) -> str:
    """The JSON text of a record or plan, with old row names, titles and settings replaced."""
    for old, new in {**ROWS, **ROW_TITLES, **SETTINGS}.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    try:
        values = json.loads(text)
    except json.JSONDecodeError:
        return text  # whoever reads it reports the error
    if not isinstance(values, dict) or values.get("version") != 1:
        return text
    return json.dumps(_current_rows(values) | {"version": RECORD_VERSION})


def _current_rows(value: Any) -> Any:
    """Values of a record or plan of version 1, with rows under their current names and titles."""
    if isinstance(value, list):
        return [_current_rows(item) for item in value]
    if not isinstance(value, dict):
        return value
    current = {name: _current_rows(item) for name, item in value.items()}
    for name in current.keys() & {"name", "row", "model", "best", "second"}:
        if isinstance(value[name], str):
            current[name] = _current_row(value[name])
    row = str(value.get("row") or value.get("name")).removesuffix("-cold")
    if "title" in value and row in MODELS_0_1:
        current["title"] = MODELS_0_1[row][1]
    return current


def _current_row(name: str) -> str:
    row = name.removesuffix("-cold")
    return MODELS_0_1[row][0] + name.removeprefix(row) if row in MODELS_0_1 else name


def current_option(argument: str) -> str:
    """A command-line argument, with the old name of an option replaced."""
    return OPTIONS.get(argument, argument)
