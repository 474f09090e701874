"""The command that serves runs: serve."""

import os
from dataclasses import dataclass
from pathlib import Path

from edgeformers.cli.command import ALL_EDGES, Command, argument, option
from edgeformers.errors import require
from edgeformers.threads import available_cores


@dataclass(frozen=True, kw_only=True)
class Serve(Command):
    """Serve runs: a REST API and an explorer.

    SIGHUP loads new versions of the runs; SIGTERM answers the requests that have begun and ends.
    """

    EXAMPLES = """\b
Examples:
  edgeformers serve run-edges run-links --open
  edgeformers serve run-links --port 8080

\b
For other machines, with a secret token:
  openssl rand -hex 32 > token
  edgeformers serve run-links --host 0.0.0.0 --token-file token
"""

    runs: list[Path] = argument("Folders of trained runs.", metavar="RUN...")
    host: str = option("Address to listen on.", "127.0.0.1")
    port: int = option("Port to listen on; 0: any free one.", 8000)
    open_browser: bool = option("Open the explorer in a browser.", False, names=["--open"])
    token_file: Path | None = option(
        "File with a secret token; required to listen on an address that others can reach."
    )
    cors_origins: list[str] | None = option(
        "Address of a web page that may call the API. Repeatable.",
        names=["--cors-origin"],
        metavar="ORIGIN",
    )
    store: Path | None = option(
        "File of edges that arrive. [default: RUN.edges.sqlite next to the first run]"
    )
    network: Path | None = option("The network, if it has moved since training.")
    all_edges: bool = option(ALL_EDGES, False)
    device: str | None = option("cpu or cuda. [default: a GPU if available]")

    def run(self) -> None:
        for module in ("fastapi", "uvicorn", "prometheus_client"):
            require(module, "serve")
        # Before torch is imported: one core is left to answer requests.
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() - 1)))
        from edgeformers.serve.server import serve

        serve(
            self.runs,
            host=self.host,
            port=self.port,
            open_browser=self.open_browser,
            token_file=self.token_file,
            cors_origins=self.cors_origins or (),
            store=self.store,
            network=self.network,
            all_edges=self.all_edges,
            device=self.device,
        )
