"""Record the outage that `breakerkit demo` ships: a real HTTP service, frozen, killed and revived under load.

    python benchmarks/record_outage.py                  # writes breakerkit/cli/recording.csv

A service in a process of its own (this file with ``--serve``) looks up items.
About one call in fifty asks for an item that does not exist (404, the caller's
fault), one in 250 hits a bug (500, the service's). Client threads call it
at a steady rate and give up after a second. Then, by the clock below, the
service is frozen (SIGSTOP, as a machine that swaps or a lock that is never
released), killed (SIGKILL, as a watchdog does) and started again, with cold
caches. What the clients saw is written in JMeter's CSV result format.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import http.client
import random
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

OUT = Path(__file__).parents[1] / "breakerkit" / "cli" / "recording.csv"
COLUMNS = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success".split(",")

SECONDS = 72.0
RATE = 24.0
CLIENTS = 64
TIMEOUT = 1.0

FREEZE_AT = 16.0
KILL_AT = 28.0
RESTART_AT = 42.0

WARM_UP = 5.0  # seconds until a fresh process has filled its caches
WORK = (0.015, 0.060)  # seconds a lookup takes with warm caches
COLD = 8.0  # times as long with cold ones
ITEMS = 1000


class Items(BaseHTTPRequestHandler):
    """The service: ``GET /items/7``."""

    protocol_version = "HTTP/1.1"
    born = time.monotonic()

    def do_GET(self) -> None:
        """Look an item up, slowly while the process is young."""
        age = (time.monotonic() - self.born) / WARM_UP
        time.sleep(random.uniform(*WORK) * max(1.0, COLD * (1 - age)))
        number = int(self.path.rpartition("/")[2])
        known, broken = number < ITEMS * 0.98, number % 250 == 7
        self.send_response(500 if broken else 200 if known else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name http.server gives it
        """Say nothing: the clients write the log."""


class Server(ThreadingHTTPServer):
    """With room for a second's worth of callers while nobody accepts."""

    request_queue_size = 64
    daemon_threads = True


class Seen(NamedTuple):
    """What one client saw of one call."""

    started: float
    ended: float
    code: str
    message: str
    thread: str
    good: bool


class Load:
    """Client threads that call at a steady rate, whatever becomes of the calls."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seen: list[Seen] = []
        self.zero = time.monotonic()
        self._due: SimpleQueue[float] = SimpleQueue()
        for number in range(int(SECONDS * RATE)):
            self._due.put((number + random.random()) / RATE)
        self._threads = [
            threading.Thread(target=self._work, name=f"c-{n}") for n in range(1, CLIENTS + 1)
        ]

    def run(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait for the last call."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        with contextlib.closing(connection), contextlib.suppress(Empty):
            while True:
                due = self._due.get_nowait()
                time.sleep(max(0.0, self.zero + due - time.monotonic()))
                self.seen.append(self._call(connection))

    def _call(self, connection: http.client.HTTPConnection) -> Seen:
        started = time.monotonic()
        try:
            connection.request("GET", f"/items/{random.randrange(ITEMS)}")
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            code, message, good = (
                type(error).__name__,
                str(error),
                False,
            )
        else:
            code, message, good = str(response.status), response.reason, response.status < 400
        thread = threading.current_thread().name
        return Seen(started, time.monotonic(), code, message, thread, good)


def start_service(port: int) -> tuple[subprocess.Popen[str], int]:
    """Start the service; return its process and port once it listens."""
    service = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(port)], stdout=subprocess.PIPE, text=True
    )
    with service.stdout or contextlib.nullcontext() as output:
        return service, int(output.readline() if output else 0)


def record() -> list[Seen]:
    """Play the outage and return what the clients saw, in the order in which calls ended."""
    service, port = start_service(0)
    try:
        time.sleep(WARM_UP)
        load = Load(port)
        load.run()
        _sleep_until(load.zero + FREEZE_AT)
        service.send_signal(signal.SIGSTOP)
        _sleep_until(load.zero + KILL_AT)
        service.kill()
        service.wait()
        _sleep_until(load.zero + RESTART_AT)
        service, _ = start_service(port)
        load.wait()
    finally:
        service.kill()
        service.wait()
    return load.seen


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def write(seen: list[Seen], out: Path) -> None:
    """Write the calls as JMeter does."""
    wall = time.time() - time.monotonic()
    with out.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for one in seen:
            start, elapsed = (
                round((one.started + wall) * 1000),
                round((one.ended - one.started) * 1000),
            )
            good = str(one.good).lower()
            table.writerow([start, elapsed, "item", one.code, one.message, one.thread, good])


def serve(port: int) -> None:
    """Be the service, until killed."""
    with Server(("127.0.0.1", port), Items) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


def main() -> None:
    """Record, or serve."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=OUT, help="where to write (default: %(default)s)"
    )
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    seen = record()
    write(seen, options.out)
    failed = sum(not one.good for one in seen)
    print(f"{len(seen)} calls, {failed} of them without a good answer, written to {options.out}")


if __name__ == "__main__":
    main()
