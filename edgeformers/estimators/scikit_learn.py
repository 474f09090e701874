"""The conventions of scikit-learn: parameters, clones, and `fit(X, y)` with a data frame."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from edgeformers.config import Task
from edgeformers.data.readers.sources import frame_to_arrow, is_frame
from edgeformers.errors import ConfigError, InputError, suggest

LABEL, PART = "edgeformers.label", "edgeformers.part"
VALIDATION = 10  # one of so many rows is a validation edge


class ScikitLearnParameters:
    """Parameters that scikit-learn reads, sets and clones: the arguments of the constructor.

    scikit-learn's BaseEstimator is not a base class, since it takes a second to import.
    """

    task: Task
    _arguments: dict[str, Any]  # as they were given

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as scikit-learn asks for them."""
        return dict(self._arguments)

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor, or single settings by dotted name.

        The estimator is no longer fitted then: set_params(**{"train.lr": 1e-4}, seed=1).
        """
        settings = {name: value for name, value in params.items() if "." in name}
        arguments = {name: value for name, value in params.items() if "." not in name}
        for name in arguments.keys() - self._arguments.keys():
            raise ConfigError(f"unknown parameter '{name}'; {suggest(name, self._arguments)}")
        arguments = {**self._arguments, **arguments}
        if settings:
            arguments["settings"] = {**(arguments["settings"] or {}), **settings}
        type(self)(**arguments)  # raises before anything is changed
        self.__init__(**arguments)  # type: ignore[misc]
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted  # type: ignore[attr-defined, no-any-return]

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        is_classifier = self.task == "edge-classification"
        return Tags(
            estimator_type="classifier" if is_classifier else None,
            target_tags=TargetTags(required=is_classifier),
            classifier_tags=ClassifierTags() if is_classifier else None,
            input_tags=InputTags(string=True),
        )


def label_rows(
    frame: Any, y: Any, columns: Mapping[str, Any], seed: int
) -> tuple[pa.Table, NDArray[Any], dict[str, Any]]:
    """The frame with labels and a split as columns, the classes, and the names of columns.

    A row whose label is None or NaN is an edge of the network that is not classified. The split is
    random, unless `columns` name one.
    """
    if not is_frame(frame):
        raise InputError("labels y go with a data frame; a prepared network has its labels already")
    if "label" in columns:
        raise InputError(f"the labels are given twice, as y and as label='{columns['label']}'")
    table, labels = frame_to_arrow(frame), list(y)
    if len(labels) != len(table):
        raise InputError(f"y has {len(labels):,} labels for {len(table):,} rows of the frame")
    known = [value is not None and value == value for value in labels]
    names = [
        str(value) if is_known else None for value, is_known in zip(labels, known, strict=True)
    ]
    table = table.append_column(LABEL, pa.array(names, pa.string()))
    columns = {**columns, "label": LABEL}
    if "split" not in columns:
        order = np.random.default_rng(seed).permutation(len(labels))
        is_validation = order < max(1, len(labels) // VALIDATION)
        table = table.append_column(PART, pa.array(np.where(is_validation, "val", "train")))
        columns["split"] = PART
    classes = np.unique(np.asarray(y)[known])
    return table, classes, columns
