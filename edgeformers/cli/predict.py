"""The command `predict`: labels for a table of edges."""

from dataclasses import dataclass
from pathlib import Path

from edgeformers.cli.command import OUT, Command, argument, option
from edgeformers.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Predict(Command):
    """Predict the labels of a table of edges.

    The output has all columns of the table, the prediction and the probability of each label.
    Sources and targets may be new.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  printf 'source,target,text\\nada,tent,Too small for two.\\n' > new.csv
  edgeformers predict run-edges new.csv -o predictions.csv
"""

    folder: Path = argument("Folder of a trained run.", metavar="RUN")
    edges: str = argument("A table: csv, tsv, jsonl or parquet.")
    out: Path = option("Output file: .parquet, .csv or .jsonl.", ..., names=OUT)
    source: str = option("Source ids.", "source", metavar="COLUMN")
    target: str = option("Target ids.", "target", metavar="COLUMN")
    text: str = option("Texts.", "text", metavar="COLUMN")
    format: str | None = option("Input format, if the file name does not tell.")
    device: str | None = option("cpu or cuda. [default: a GPU if available]")

    def run(self) -> None:
        from edgeformers.data.readers.files import expand_paths
        from edgeformers.estimators import EdgeClassifier, load
        from edgeformers.inference.batch_inference import predict_edges, write_rows
        from edgeformers.runs import check_device

        if self.out.exists() and any(self.out.samefile(p) for p in expand_paths(self.edges)):
            raise InputError(f"{self.out} is the input; write the predictions to another file")
        classifier = load(self.folder, device=check_device(self.device))
        if not isinstance(classifier, EdgeClassifier):
            raise InputError(
                f"{self.folder} predicts links; use: edgeformers recommend {self.folder} NODE"
            )
        columns = {"source": self.source, "target": self.target, "text": self.text}
        predictions = predict_edges(classifier, self.edges, format=self.format, **columns)
        count = write_rows(self.out, predictions)
        self.print({"out": str(self.out), "edges": count}, f"{count:,} predictions: {self.out}")
