"""What stands before the server: a place in line, and then the breaker: who waits for a place waits for nothing in an outage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit import CircuitBreaker
    from breakerkit.store.redis._clients import Clients
    from breakerkit.store.redis._script import Script


def guarded(clients: Clients, breaker: CircuitBreaker) -> tuple[Callable[..., Any], ...]:
    """Return how to send a script for a key and for a pattern, in a thread; and the same in a task."""

    # Plain functions: a breaker around one is a plain function too.
    def ask(way: Any, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        return way.exchange(script, key, args)

    async def ask_async(way: Any, script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        return await way.exchange(script, key, args)

    def sweep(way: Any, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        way.sweep(script, pattern, args)

    async def sweep_async(way: Any, script: Script, pattern: bytes, args: tuple[Any, ...]) -> None:
        await way.sweep(script, pattern, args)

    return (
        _in_line(clients, breaker(ask)),
        _in_line(clients, breaker(sweep)),
        _in_line_async(clients, breaker(ask_async)),
        _in_line_async(clients, breaker(sweep_async)),
    )


def _in_line(clients: Clients, send: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that waits for a place before it sends."""

    def sent(script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        way = clients.sync()
        places = way.places
        place = places.enter()
        try:
            return send(way, script, key, args)
        finally:
            places.leave(place)

    return sent


def _in_line_async(clients: Clients, send: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for tasks."""

    async def sent(script: Script, key: bytes, args: tuple[Any, ...]) -> Any:
        way = clients.there() or await clients.here()
        places = way.places
        place = places.take() or await places.enter()
        try:
            return await send(way, script, key, args)
        finally:
            places.leave(place)

    return sent
