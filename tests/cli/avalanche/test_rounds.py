"""A round as it goes on: what callers get, and what a display is shown."""

from __future__ import annotations

import socketserver
import threading
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from breakerkit.cli._crew import TraceClock
from breakerkit.cli._service import bound
from breakerkit.cli.avalanche._plan import ENDPOINTS
from breakerkit.cli.avalanche._rounds import Clients, Kind, Outcome, Round, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWERS = {
    b"/reviews": b"HTTP/1.0 200 OK\r\n\r\n[]",
    b"/prices": b'HTTP/1.0 200 OK\r\n\r\n["a price"]',
    b"/stock": b"HTTP/1.0 503 Busy\r\n\r\n",
    b"/broken": b"HTTP/1.0 502 Bad Gateway\r\n\r\n",
}


class Canned(socketserver.BaseRequestHandler):
    """Answers by path, and is silent where it knows none until the caller leaves."""

    def handle(self) -> None:
        path = self.request.recv(65536).split(b" ")[1]
        if path in ANSWERS:
            self.request.sendall(ANSWERS[path])
        else:
            self.request.recv(1)


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody gives canned answers."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Canned) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        ("prices", Kind.ANSWERED),
        ("reviews", Kind.STAND_IN),
        ("stock", Kind.REFUSED),
        ("broken", Kind.FAILED),
        ("silence", Kind.TIMED_OUT),
    ],
)
def test_what_a_caller_got(port: int, endpoint: str, kind: Kind) -> None:
    """The status tells, and an empty list is the rule's."""
    assert ask(port, endpoint, 0.2 if kind is Kind.TIMED_OUT else 10) is kind


def test_nobody_there_is_a_failure() -> None:
    """As is anything else that is no answer."""
    with closing(bound(0)) as silent:
        assert ask(silent.getsockname()[1], "prices", 10) is Kind.FAILED


def test_each_endpoint_is_called_at_the_rate(port: int, rounds: tuple[Round, Round]) -> None:
    """In turn, to the end of the round; each call is noted with its times."""
    from dataclasses import replace

    played = Round(replace(rounds[0].plan, span=0.5, rate=40.0, takes=0.0), isolated=False)
    clients = Clients(played, port)
    clients.start()
    while clients.working():
        pass
    counts = Counter(one.endpoint for one in played.outcomes)
    assert counts == pytest.approx(dict.fromkeys(ENDPOINTS, 20), abs=1)
    assert all(0 <= one.began <= one.ended < 20 for one in played.outcomes)
    assert {one.kind for one in played.outcomes} == {Kind.ANSWERED, Kind.STAND_IN, Kind.REFUSED}


def test_what_is_shown_of_a_round(rounds: tuple[Round, Round]) -> None:
    """How the dependency is, the counts, and a lane per endpoint."""
    shared, isolated = rounds
    assert (shared.label, isolated.label, shared.span) == ("shared", "isolated", 10.0)
    assert shared.at() == 0.0
    assert shared.facts() == [
        ("reviews", "well"), ("answered", "120"), ("timed out", "60"), ("refused", "120"),
        ("stand-in", "0"),
    ]  # fmt: skip
    shared.outcomes.append(Outcome("stock", 1.0, 1.1, Kind.FAILED))
    assert shared.facts()[-1] == ("failed", "1")
    shared.outcomes.pop()
    assert [(lane.name, len(lane.ends)) for lane in shared.lanes()] == [
        (name, 100) for name in ENDPOINTS
    ]


def test_the_state_of_the_dependency_is_named(rounds: tuple[Round, Round]) -> None:
    """It is well, hangs, or is degraded as long as the rule stands."""
    _, isolated = rounds
    now = [0.0]
    isolated.clock = TraceClock(1.0, lambda: now[0])
    isolated.written = isolated.cleared = None

    def state(at: float) -> str:
        now[0] = at
        return isolated.facts()[0][1]

    assert [state(1.0), state(2.0), state(7.9), state(8.0)] == ["well", "hangs", "hangs", "well"]
    isolated.written = 5.0
    assert [state(6.0), state(8.2)] == ["degraded"] * 2
    isolated.cleared = 8.5
    assert state(8.6) == "well"
    assert isolated.at() == 8.6
    now[0] = 99.0
    assert isolated.at() == isolated.span


def test_a_rule_is_in_force_from_its_first_answer(rounds: tuple[Round, Round]) -> None:
    """Before that nobody knows."""
    shared, isolated = rounds
    assert (shared.in_force, isolated.in_force) == (None, 5.5)
    isolated.outcomes.append(Outcome("reviews", 5.2, 5.3, Kind.STAND_IN))
    assert isolated.in_force == 5.2
