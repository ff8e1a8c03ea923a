"""Whether a call was let in already: what is submitted though it is guarded asks its bulkhead once."""

from __future__ import annotations

from contextvars import ContextVar

#: Name of the bulkhead whose next guarded call, here, has its slot.
inside: ContextVar[str | None] = ContextVar("breakerkit_inside", default=None)


def passes(name: str) -> bool:
    """Tell whether a call through this bulkhead was let in already; that holds for one call."""
    if inside.get() != name:
        return False
    inside.set(None)
    return True
