"""Load generator: clients in one process that each send a request, wait for the answer, and repeat.

python benchmarks/load.py http://127.0.0.1:8000 requests.json --clients 8 --seconds 60

requests.json is a list of [method, path, body]. Requests are drawn uniformly. Connections are kept
open unless the server closes them; then connecting counts as part of the next request. It needs
only the standard library, and prints one line of JSON.
"""

import argparse
import asyncio
import json
import random
import resource
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Load:
    """What the clients measured: the seconds of each answered request, and errors by kind."""

    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def percentile_ms(self, share: float) -> float:
        """The time within which a share of the requests was answered."""
        ordered = sorted(self.latencies) or [0.0]
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3


class Client:
    """One connection, opened when needed."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.host, self.port = address.hostname or "127.0.0.1", address.port or 80
        self._streams: Streams | None = None

    async def send(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        """The status and the content of the answer."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(head.encode() + b"\r\n" + content)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        received = await reader.readexactly(length)
        if b"connection: close" in answer:
            self.close()
        return int(answer.split(b" ", 2)[1]), received

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def generate_load(
    url: str, requests: list[tuple[str, str, object]], *, clients: int, seconds: float
) -> Load:
    """Send requests for some seconds; an answer other than 200 is an error."""
    load, end = Load(), time.perf_counter() + seconds

    async def repeat(seed: int) -> None:
        client, draw = Client(url), random.Random(seed)
        while (start := time.perf_counter()) < end:
            try:
                status, _ = await asyncio.wait_for(client.send(*draw.choice(requests)), 60)
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                client.close()
                load.errors[repr(error)] += 1
                await asyncio.sleep(0.01)  # a server that is gone is not asked in a tight loop
                continue
            load.latencies.append(time.perf_counter() - start)
            if status != 200:
                load.errors[f"status {status}"] += 1
        client.close()

    await asyncio.gather(*map(repeat, range(clients)))
    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("requests", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    requests = json.loads(options.requests.read_text("utf-8"))
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    load = asyncio.run(
        generate_load(options.url, requests, clients=options.clients, seconds=options.seconds)
    )
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record = {
        "clients": options.clients,
        "seconds": took,
        "requests": len(load.latencies),
        "requests_per_second": len(load.latencies) / took,
        "p50_ms": load.percentile_ms(0.5),
        "p99_ms": load.percentile_ms(0.99),
        "max_ms": load.percentile_ms(1.0),
        "errors": dict(load.errors),
        "client_cpu_share": cpu / took,  # of one core
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
