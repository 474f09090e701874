"""The command line: a thin layer over the library. `run` is the entry point of the program."""

import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the program; a signal ends it with one sentence, also while it imports the library."""
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        sys.exit(128 + number)

    is_alone = "RANK" not in os.environ  # torchrun ends its processes itself
    for number in (signal.SIGINT, signal.SIGTERM) if is_alone else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        from edgeformers.cli.main import run as run_command

        run_command()
    except BaseException:  # libraries may raise another error than the handler
        if not received:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending already
        name = signal.Signals(received[0]).name
        sys.stderr.write(f"\nstopped by {name}; run the same command again to continue\n")
        sys.exit(128 + received[0])
