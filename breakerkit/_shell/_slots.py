"""Plain and coroutine functions behind a gate that hands out slots: the two closures of its hot path.

A slot is popped from a deque and appended to it again; both are atomic, and
no Python code runs between an end and the append that an interrupt could
come before. All else is the gate's: see `run_plain` and `coroutine_function`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from breakerkit._abandoned import ledger
from breakerkit._shell._deferred import carry
from breakerkit._shell._functions import find_function, run_plain
from breakerkit._shell._runs import coroutine_function
from breakerkit._shell._shapes import Shape, runs_later

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from breakerkit._shell._runs import Find


class SlotGate(Protocol):
    """What the closures need of a gate, beside its being one."""

    open: deque[Any]
    busy: bool

    def serve(self) -> None:
        """Look at slots that have come free."""

    def release(self, slot: Any, mark: int | None = None) -> None:
        """Take a slot back, once what was abandoned since ``mark`` has ended."""


def slotted_function(
    gate: Any, find: Find, function: Callable[..., Any], shape: Shape
) -> Callable[..., Any]:
    """Return a bare function of the same kind behind a gate of slots.

    Args:
        gate: hands out slots without being asked, from ``gate.open``.
        find: gives the gate to ask, for the arguments of a call.
        function: what runs behind it.
        shape: how it is called.
    """
    if shape is Shape.PLAIN:
        return _plain(gate, find, function)
    if shape is Shape.COROUTINE:
        return _coroutine(gate, find, function)
    return find_function(find, function, shape)


def _plain(gate: SlotGate, find: Find, function: Callable[..., Any]) -> Callable[..., Any]:
    plain: type = type(None)  # the last type seen that is not deferred work

    def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal plain
        slot, free = None, gate.open
        try:  # noqa: SIM105  # contextlib.suppress costs more than the call
            slot = free.pop()
        except IndexError:
            pass
        if slot is None:
            return run_plain(find(args, kwargs), function, args, kwargs)
        mark = ledger.mark
        try:
            # Passing on no keywords as no keywords saves CPython a copy of nothing.
            value = function(*args, **kwargs) if kwargs else function(*args)
            if type(value) is not plain:
                if runs_later(type(value)):
                    held, slot = slot, None
                    held.mark = mark
                    return carry(gate, held, value)  # type: ignore[arg-type]  # it is a Gate too
                plain = type(value)
            return value
        finally:
            if slot is not None:
                if ledger.mark != mark:
                    gate.release(slot, mark)
                else:
                    slot.uses += 1
                    try:
                        free.append(slot)
                    finally:
                        slot = None
                        if gate.busy:
                            try:
                                gate.serve()
                            except BaseException:
                                # An interrupt in the middle of it: others wait for this.
                                gate.serve()
                                raise

    return guarded


def _coroutine(gate: SlotGate, find: Find, function: Callable[..., Any]) -> Callable[..., Any]:
    slow = coroutine_function(find, function)

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        slot, free = None, gate.open
        try:  # noqa: SIM105  # contextlib.suppress costs more than the call
            slot = free.pop()
        except IndexError:
            pass
        if slot is None:
            return await slow(*args, **kwargs)
        mark = ledger.mark
        try:
            return await (function(*args, **kwargs) if kwargs else function(*args))
        finally:
            if ledger.mark != mark:
                gate.release(slot, mark)
            else:
                slot.uses += 1
                try:
                    free.append(slot)
                finally:
                    slot = None
                    if gate.busy:
                        try:
                            gate.serve()
                        except BaseException:
                            gate.serve()
                            raise

    return guarded
