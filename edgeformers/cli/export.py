"""The command that writes a trained model for another tool."""

from dataclasses import dataclass
from pathlib import Path

from edgeformers.cli.command import OUT, Command, argument, option


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Write a trained model for another tool.

    The folder has a README.md that shows how to call it. sentence-transformers and huggingface get
    the text encoder, onnx the whole model with its node tokens.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  edgeformers export run-edges --to sentence-transformers -o encoder
  edgeformers export run-edges --to onnx -o edges-onnx --int8
"""

    folder: Path = argument("Folder of a trained run.", metavar="RUN")
    to: str = option("sentence-transformers, onnx or huggingface.", ..., metavar="FORMAT")
    out: Path = option("The folder to write.", ..., names=OUT)
    int8: bool = option("With --to onnx: 8-bit weights, slightly different vectors.", False)
    overwrite: bool = option("Replace an earlier export.", False)

    def run(self) -> None:
        from edgeformers.export import export_model

        path = export_model(
            self.folder,
            self.out,
            to=self.to,  # type: ignore[arg-type]  # checked there
            int8=self.int8,
            overwrite=self.overwrite,
        )
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        self.print(
            {"out": str(path), "to": self.to, "bytes": size},
            f"{path}: {size / 1e6:,.1f} MB; how to call it: {path / 'README.md'}",
        )
