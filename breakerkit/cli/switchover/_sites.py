"""A provider that can die and come back: a process of its own, always at the same address."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from breakerkit.cli import _service

if TYPE_CHECKING:
    import socket
    from types import TracebackType

    from breakerkit.cli._child import ServiceLike, Start
    from breakerkit.cli.switchover._plan import Plan

__all__ = ["Site"]


class Site:
    """A provider, alive for the length of a ``with`` block unless it is killed.

    Args:
        name: what to call it.
        plan: what it does.
        start: how its program is started.
    """

    def __init__(self, name: str, plan: Plan, start: Start) -> None:
        self.name = name
        self.port = 0
        self._plan = plan
        self._start = start
        self._life = ExitStack()
        self._child: ServiceLike | None = None
        self._place: socket.socket | None = None

    def __enter__(self) -> Self:
        self.revive()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._life.close()
        self._free()

    @property
    def alive(self) -> bool:
        """Whether it has a process."""
        return self._child is not None

    def kill(self) -> None:
        """Kill the process: what it was doing breaks off, and nobody listens any more."""
        self._child = None
        self._life.close()
        # Nobody else, a client's own end included, can be given this port meanwhile.
        with suppress(OSError):  # the system may keep a dead process's port for itself
            self._place = _service.bound(self.port)

    def revive(self) -> None:
        """Start a process that listens where the former one did."""
        self._free()
        script = self._plan.script(self.port).dumps()
        what = f"the provider {self.name}"
        self._child = self._life.enter_context(self._start(_service.__file__, script, what))
        self.port = self._child.port

    def check(self) -> None:
        """Raise `ServiceDiedError` if its process has ended by itself."""
        if self._child is not None:
            self._child.check()

    def _free(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None
