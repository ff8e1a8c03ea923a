"""Module-level things for tests of pickling: another process finds them by their names."""

from __future__ import annotations

import functools
from typing import Any

from breakerkit import breaker, breaker_methods


@breaker(failure_threshold=1, open_duration=60)
def work(fail: bool = False) -> str:
    """Work, in whatever process."""
    if fail:
        raise ConnectionError("down")
    return "done"


@breaker
async def work_async() -> str:
    """Work, awaited."""
    return "done"


class Service:
    """A service with guarded methods."""

    @breaker
    def method(self, value: int) -> int:
        return value

    @classmethod
    @breaker
    def class_method(cls, value: int) -> tuple[type, int]:
        return cls, value

    @breaker
    @staticmethod
    def static_method(value: int) -> int:
        return value


@breaker_methods(scope="instance")
class Each:
    """A service whose instances have breakers of their own."""

    def method(self, value: int) -> int:
        return value


class _Compiled:
    """Stands for a function of an extension module: callable, named, no Python function."""

    def __init__(self, function: Any) -> None:
        self._function = function
        functools.update_wrapper(self, function)
        del self.__wrapped__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


@breaker
@_Compiled
def compiled(value: int) -> int:
    """Work at the speed of C."""
    return value


@breaker(key=lambda host: host)
def by_key(host: str) -> str:
    """Work by key."""
    return host
