"""Run the server: bind, load, announce, answer until a signal, drain."""

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from edgeformers.errors import InputError
from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service

DRAIN_SECONDS = 30


def serve(
    runs: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    network: Path | None = None,
    device: str | None = None,
) -> None:
    """Serve runs until SIGINT or SIGTERM; requests that have begun are answered first."""
    listener = _bind(host, port)
    service = Service(runs, network=network, device=device)
    config = uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    address = f"http://{host}:{listener.getsockname()[1]}"
    sys.stdout.write(f"serving {len(runs)} runs at {address} (API: {address}/docs)\n")
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[listener])


def _bind(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose `port=`"
        ) from error
