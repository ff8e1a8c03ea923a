"""The service over real sockets: a bounded pool of workers, bulkheads, rules, and its end."""

from __future__ import annotations

import io
import json
import runpy
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from breakerkit import Degradation
from breakerkit.cli import _service
from breakerkit.cli._service import Reply, Script
from breakerkit.cli.avalanche import _shop
from breakerkit.cli.avalanche._rounds import Kind, ask
from breakerkit.cli.avalanche._shop import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WELL = Script([Reply(0.0, "right", 200)], [])
HANGS = Script([Reply(3600.0, "right", 200)], [])
LONG = 20.0


@pytest.fixture
def shop(as_thread: Callable, request: pytest.FixtureRequest) -> Callable[..., int]:
    """Start the service with dependencies as they are given; return its port."""
    from contextlib import ExitStack

    stack = ExitStack()
    request.addfinalizer(stack.close)

    def start(
        workers: int = 2, waiting: int = 1, limit: int = 0, rules: str = "", **of: Script
    ) -> int:
        ports = {
            name: stack.enter_context(as_thread(_service.__file__, script.dumps(), name)).port
            for name, script in of.items()
        }
        settings = Settings(ports, workers, waiting, limit, rules)
        # In front of the dependencies' ends: workers end when what they wait for does.
        program = as_thread(_shop.__file__, settings.dumps(), "shop")
        port = program.__enter__().port
        stack.push(lambda *error: program.__exit__(*error))
        return port

    return start


def test_settings_survive_the_pipe() -> None:
    """What one end writes as a line the other reads again."""
    settings = Settings({"a": 1, "b": 2}, 3, 4, 5, "/rules.toml")
    assert Settings.loads(settings.dumps()) == settings
    assert "\n" not in settings.dumps()


def test_each_endpoint_asks_its_dependency(shop: Callable) -> None:
    """An answer for what works, 502 for what breaks."""
    port = shop(prices=WELL, stock=Script([Reply(0.0, "reset", 0)], []))
    assert ask(port, "prices", LONG) is Kind.ANSWERED
    assert ask(port, "stock", LONG) is Kind.FAILED


def test_a_hung_dependency_takes_all_workers(shop: Callable) -> None:
    """Two callers hang, one waits, the next is refused at once: whatever it asks for."""
    port = shop(reviews=HANGS, prices=WELL)
    waiting = [socket.create_connection(("127.0.0.1", port), timeout=LONG) for _ in range(3)]
    try:
        for sock in waiting:
            sock.sendall(b"GET /reviews HTTP/1.0\r\n\r\n")
        kinds = {ask(port, "prices", 0.2)}
        while Kind.REFUSED not in kinds:  # the first may be as early as the workers
            kinds.add(ask(port, "prices", 0.2))
        assert kinds <= {Kind.REFUSED, Kind.TIMED_OUT}
    finally:
        for sock in waiting:
            sock.close()


def test_who_leaves_before_being_refused_harms_nobody(shop: Callable) -> None:
    """A connection that breaks off while it is refused, or before it is answered, is forgotten."""
    port = shop(workers=1, waiting=1, reviews=HANGS, prices=WELL)
    for _ in range(6):
        sock = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _service._RESET_ON_CLOSE)
        sock.sendall(b"GET /reviews HTTP/1.0\r\n\r\n")
        sock.close()
    assert ask(port, "prices", LONG) in {Kind.REFUSED, Kind.ANSWERED}


def test_bulkheads_keep_the_others_alive(shop: Callable) -> None:
    """With one each, a hung dependency has its own callers refused, and nobody else's."""
    port = shop(workers=4, waiting=8, limit=1, reviews=HANGS, prices=WELL)
    with ThreadPoolExecutor() as pool:
        hung = [pool.submit(ask, port, "reviews", 1.0) for _ in range(3)]
        assert [ask(port, "prices", LONG) for _ in range(5)] == [Kind.ANSWERED] * 5
        kinds = sorted(future.result() for future in hung)
    assert kinds == [Kind.REFUSED, Kind.REFUSED, Kind.TIMED_OUT]


def test_a_rule_stands_in_for_a_dependency(
    shop: Callable, tmp_path: Path, wait_until: Callable
) -> None:
    """As soon as the file says so, and until it no longer does."""
    rules = tmp_path / "rules.toml"
    rules.write_text("rules = []\n")
    port = shop(workers=4, waiting=8, limit=1, rules=str(rules), reviews=WELL)
    assert ask(port, "reviews", LONG) is Kind.ANSWERED
    rules.write_text('[[rules]]\nname = "reviews"\nrule = "force:return []"\n')
    wait_until(lambda: ask(port, "reviews", LONG) is Kind.STAND_IN)
    rules.write_text("rules = []\n")
    wait_until(lambda: ask(port, "reviews", LONG) is Kind.ANSWERED)


def test_the_answer_is_json(shop: Callable) -> None:
    """What the endpoint's function returned."""
    import urllib.request

    port = shop(prices=WELL)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/prices", timeout=LONG) as answer:
        assert json.load(answer) == _shop.ANSWER


def test_a_service_whose_input_is_empty_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as a program with nothing on standard input it ends at once, in silence."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    runpy.run_path(_shop.__file__, run_name="__main__")
    assert not [one for one in threading.enumerate() if "serve_forever" in one.name]


def test_who_waits_is_hung_up_on_at_the_end() -> None:
    """A connection that waits for a worker when the server ends is closed, not forgotten."""
    shop = _shop.Shop(Settings({}, workers=0, waiting=2), Degradation())
    theirs, ours = socket.socketpair()
    with theirs:
        shop.process_request(ours, None)
        shop.server_close()
        assert theirs.recv(1) == b""
