"""Run the server: bind, load, announce, answer until a signal, drain."""

import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from edgeformers.data.card.phrasing import counted
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.serve.app import create_app
from edgeformers.serve.auth import check_address, is_local, read_tokens
from edgeformers.serve.service import Service

DRAIN_SECONDS = 30  # for requests that have begun when the server is told to stop


def serve(
    runs: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = False,
    token_file: Path | None = None,
    cors_origins: Sequence[str] = (),
    store: Path | None = None,
    network: Path | None = None,
    all_edges: bool = False,
    device: str | None = None,
) -> None:
    """Serve runs until SIGINT or SIGTERM; requests that have begun are answered first.

    SIGHUP loads new versions of the runs.
    """
    tokens = read_tokens(token_file) if token_file is not None else []
    check_address(host, has_tokens=bool(tokens))
    with _bind(host, port) as listener:
        service = Service(runs, store=store, network=network, all_edges=all_edges, device=device)
        app = create_app(
            service,
            tokens=tokens,
            cors_origins=cors_origins,
            only_local_names=is_local(host) and not tokens,
        )
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=DRAIN_SECONDS
        )
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        names = ", ".join(model.name for model in service.versions.current)
        _print(f"serving {names}: open {address} to explore, {address}/docs for the API")
        for model in [] if all_edges else service.versions.current:
            number = model.fitted.num_unread if isinstance(model.fitted, FittedLinkPredictor) else 0
            if number:
                links = counted(number, "link", "links")
                note = f"ignores {links} from after its training; --all-edges reads them"
                _print(f"{model.name} {note}")
        if open_browser:  # the listener keeps its request until the server runs
            webbrowser.open(address)
        _Server(config, service).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends with exit code 0 after a signal, and reloads on SIGHUP."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        handlers = {signal.SIGINT: self.handle_exit, signal.SIGTERM: self.handle_exit}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _reload(self, number: int, frame: FrameType | None) -> None:
        threading.Thread(target=reload_and_print, args=[self._service], daemon=True).start()


def reload_and_print(service: Service) -> None:
    """Load new versions, and print which ones are served."""
    try:
        models = service.reload().models
    except (EdgeformersError, OSError) as error:
        _print(f"error: {error}; the versions before are still served")
    else:
        _print("serving " + ", ".join(f"{model.name} {model.version}" for model in models))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _bind(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise InputError(f"a port is a number up to 65535 (got {port}); choose another `port=`")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cannot listen on {host}, port {port} ({reason}); choose another `port=`"
        ) from error
