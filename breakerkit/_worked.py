"""From the call of a function to its class, and to work for the workers of a bulkhead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakerkit._fields import show
from breakerkit._methods import SelfFinder
from breakerkit._shell._shapes import runs_later
from breakerkit._shell._wrapped import innermost
from breakerkit.isolation._callers import Call
from breakerkit.isolation._inside import inside, passes
from breakerkit.isolation._through import run

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from breakerkit.cancel import CancelSignal
    from breakerkit.isolation.guard import BulkheadGuard


def share_finder(guard: BulkheadGuard, function: Any) -> Callable[[Any, Any], Hashable]:
    """Return what gives the class of a call from its arguments; without ``self``."""
    takes_self: Callable[[Any], bool] | None = None

    def find(args: Any, kwargs: Any) -> Hashable:
        nonlocal takes_self
        share_of = guard.config.share_of
        if share_of is None:
            return None
        if takes_self is None:
            bare = innermost(function)
            # What is bound already brings no self, whatever its first argument may be.
            takes_self = _never if getattr(bare, "__self__", None) is not None else SelfFinder(bare)
        own = args[1:] if args and takes_self(args[0]) else args
        share = share_of(*own, **kwargs)
        hash(share)  # what cannot be a class is told before anything has happened
        return share  # type: ignore[no-any-return]  # it has a hash

    return find


def _never(_: object) -> bool:
    return False


def worked_function(
    guard: BulkheadGuard, function: Callable[..., Any], cancel: CancelSignal | None = None
) -> Callable[..., Any]:
    """Return a function that lets a worker run ``function`` and waits for it."""
    find = share_finder(guard, function)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if passes(guard.name):
            return function(*args, **kwargs)
        share = find(args, kwargs)
        return run(work_of(Call, guard, function, args, kwargs, share=share, cancel=cancel))

    return guarded


def work_of(
    kind: type[Any],
    guard: BulkheadGuard,
    function: Any,
    args: Any,
    kwargs: Any,
    *,
    share: Hashable,
    within: str | None = None,
    cancel: CancelSignal | None = None,
) -> Any:
    """Return a call as its workers take it.

    Args:
        kind: how the caller waits for it.
        guard: the bulkhead's.
        function: what runs.
        args: with what.
        kwargs: with what.
        share: its class.
        within: name of the bulkhead, where ``function`` is guarded by it: this
            call has its slot already.
        cancel: looked at before it begins.
    """
    title = str(getattr(function, "__qualname__", type(function).__name__))
    call: Any
    if guard.config.isolation == "process":
        from breakerkit.isolation._naming import packed  # noqa: PLC0415  # for processes only

        call = (packed(function, args, kwargs), within), (), {}
    else:
        call = _ended(function, within, title), args, kwargs
    return kind(guard, share, *call, cancel, title)


def _ended(function: Callable[..., Any], within: str | None, title: str) -> Callable[..., Any]:
    """Return a call for a worker thread, where it must end: what it returns may not run on later."""

    def call(*args: Any, **kwargs: Any) -> Any:
        inside.set(within)
        value = function(*args, **kwargs)
        if runs_later(type(value)):
            if hasattr(value, "close"):
                value.close()  # it shall not be said to have been forgotten
            raise TypeError(
                f"{title} returned {show(value)}, which is yet to run, and not in the worker;"
                " use isolation='caller' for it"
            )
        return value

    return call
