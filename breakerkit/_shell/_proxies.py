"""Stand-ins for objects: in all but the guarded call they are the object itself.

This module and `_foreign` are the only ones that need wrapt, which imports
asyncio; it is imported when the first such object is guarded.
"""

from __future__ import annotations

import copy
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import wrapt

from breakerkit._shell._runs import coroutine_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit._shell._gate import Carried, Gate


class GuardedObject(wrapt.ObjectProxy[Any]):
    """A callable object behind a gate."""

    def __init__(self, wrapped: Any, call: Callable[..., Any], owner: Any) -> None:
        super().__init__(wrapped)
        self._self_call = call
        self._self_owner = owner

    @property
    def __call__(self) -> Any:
        # The function itself: a framework may ask it whether a call is to be awaited.
        return self._self_call

    def __getattr__(self, name: str) -> Any:
        if (owner := self._self_owner.leads_to(name)) is not None:
            return owner
        return super().__getattr__(name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _name_of(self) or (_again, (self._self_owner, self.__wrapped__))

    def __copy__(self) -> Any:
        return _again(self._self_owner, copy.copy(self.__wrapped__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _again(self._self_owner, copy.deepcopy(self.__wrapped__, memo))


class GuardedDescriptor(GuardedObject):
    """The same for a callable that binds to instances, such as a compiled method."""

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        bound = self.__wrapped__.__get__(instance, kind)
        return self if bound is self.__wrapped__ else _again(self._self_owner, bound)


def _again(owner: Any, wrapped: Any) -> Any:
    return owner(wrapped)


def _name_of(proxy: Any) -> str | None:
    """Return the name under which its module has this very proxy: by that it pickles."""
    name = getattr(proxy.__wrapped__, "__qualname__", None)
    if not isinstance(name, str):
        return None
    found: Any = sys.modules.get(getattr(proxy.__wrapped__, "__module__", None) or "")
    for step in name.split("."):
        found = getattr(found, step, None)
    return name if found is proxy else None


class PerInstance(wrapt.ObjectProxy[Any]):
    """A method whose breaker belongs to the instance and goes when the instance goes.

    Instances are told apart by identity, so they need be neither hashable nor
    comparable; they must allow weak references.
    """

    def __init__(self, wrapped: Any, make: Callable[[], Any]) -> None:
        super().__init__(wrapped)
        self._self_make = make
        self._self_bound: dict[int, tuple[Any, weakref.ref[Any]]] = {}

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is None:
            return self
        return types.MethodType(self._self_of(instance), instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_of(args[0])(*args, **kwargs) if args else self.__wrapped__(**kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__wrapped__.__qualname__  # pickle looks whether that leads here

    def _self_of(self, instance: Any) -> Any:
        """Return the guarded function of one instance; two threads at once get the same."""
        key, bound = id(instance), self._self_bound
        if key not in bound:
            made = self._self_make()(self.__wrapped__)
            gone = weakref.ref(instance, lambda _: bound.pop(key, None))
            return bound.setdefault(key, (made, gone))[0]
        return bound[key][0]


class AwaitableWithin(wrapt.ObjectProxy[Any]):
    """An awaitable object that is awaited, or entered, inside a coroutine of a policy.

    It is seen as what it stands for: a client's request object, say, that can
    be awaited and used with ``async with``.
    """

    def __init__(self, wrapped: Any, within: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__(wrapped)
        self._self_within = within
        self._self_running: Any = None

    def __await__(self) -> Any:
        return self._self_within(lambda: self.__wrapped__).__await__()

    async def __aenter__(self) -> Any:
        return await self._self_within(self.__wrapped__.__aenter__)

    async def __aexit__(self, *details: object) -> Any:
        return await self.__wrapped__.__aexit__(*details)

    # The coroutine protocol, for a loop that drives it as a task.

    def send(self, value: Any) -> Any:
        """Run on to the next suspension."""
        return self._self_run().send(value)

    def throw(self, *details: Any) -> Any:
        """Raise inside."""
        return self._self_run().throw(*details)

    def close(self) -> None:
        """End it."""
        if self._self_running is not None:
            self._self_running.close()
        if hasattr(type(self.__wrapped__), "close"):
            self.__wrapped__.close()

    def _self_run(self) -> Any:
        if self._self_running is None:
            self._self_running = self._self_within(lambda: self.__wrapped__)
        return self._self_running


class GuardedAwaitable(AwaitableWithin):
    """One that settles its entry when it has been awaited or entered."""

    def __init__(self, wrapped: Any, gate: Gate, carried: Carried) -> None:
        super().__init__(wrapped, self._self_guard)
        self._self_gate = gate
        self._self_carried = carried

    def __await__(self) -> Any:
        if self._self_carried.taken:
            return self.__wrapped__.__await__()  # awaited again: one call, judged once
        return super().__await__()

    async def __aenter__(self) -> Any:
        if self._self_carried.taken:
            return await self.__wrapped__.__aenter__()
        return await super().__aenter__()

    def close(self) -> None:
        """End it; never begun, it gives its slot back."""
        if self._self_running is None and not self._self_carried.taken:
            self._self_gate.drop(self._self_carried.take())
        super().close()

    def _self_guard(self, what: Callable[[], Any]) -> Any:
        gate = self._self_gate
        return coroutine_function(lambda _args, _kwargs: gate, what, self._self_carried)()


class RelievedAwaitable(AwaitableWithin):
    """One whose error may be answered: what was never entered itself is not left either."""

    def __init__(self, wrapped: Any, within: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__(wrapped, within)
        self._self_entered = False

    async def __aenter__(self) -> Any:
        return await self._self_within(self._self_enter)

    async def __aexit__(self, *details: object) -> Any:
        return await super().__aexit__(*details) if self._self_entered else None

    async def _self_enter(self) -> Any:
        value = await self.__wrapped__.__aenter__()
        self._self_entered = True
        return value
