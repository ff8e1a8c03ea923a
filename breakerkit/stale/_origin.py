"""What a cache is around: one function, unless keys are made by the user, for two would share their values."""

from __future__ import annotations

import inspect
import types
import weakref
from typing import TYPE_CHECKING, Any

from breakerkit import _fields as fields
from breakerkit.stale.keys import AmbiguousKeyError, KeyMaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from breakerkit.stale.config import StaleConfig
    from breakerkit.stale.guard import StaleKeeper


class Origin:
    """The function, or functions, behind a cache; of several it keeps none alive."""

    __slots__ = (
        "__weakref__", "_decorated", "_keeper", "_known", "_maker", "_name", "_only", "_several",
        "_shown", "_sync",
    )  # fmt: skip

    def __init__(self, keeper: StaleKeeper) -> None:
        self._keeper = keeper
        #: The innermost function whose arguments make the keys, what makes them, and its name.
        self._known: Callable[[], Any] = _nothing
        self._maker: KeyMaker | None = None
        self._shown = ""
        self._name: tuple[Any, Any] = (None, None)
        self._decorated: list[Callable[[], Any]] = []
        #: The only one that ever was: to `fetch` may be all that is wanted of it.
        self._only: Any = None
        self._several = False
        self._sync = False

    def serve(self, sync: bool, config: StaleConfig) -> None:
        """Hear that a sync function, or an async one, is to be put behind the cache."""
        if sync:
            _check_sync(config)
            self._sync = True

    def check(self, config: StaleConfig) -> None:
        """Refuse settings that a function behind it cannot have."""
        if self._sync:
            _check_sync(config)

    def key_maker(self, function: Any) -> Callable[[Any, Any], str]:
        """Return what makes the keys of a function's calls; of a bound method's, with its object.

        Raises:
            AmbiguousKeyError: another function has keys in this cache already, made
                of its arguments alone.
        """
        owner = _bound_to(function)
        if owner is None or isinstance(owner, types.ModuleType):
            return self._maker_of(function)
        bare = getattr(function, "__func__", None)
        maker = self._maker_of(function if bare is None else bare)
        if bare is not None:
            return lambda args, kwargs: maker((owner, *args), kwargs)
        number = self._keeper.instances.number
        return lambda args, kwargs: f"<{number(owner)}: {maker(args, kwargs)}>"

    def _maker_of(self, function: Any) -> KeyMaker:
        known = self._known()
        if self._maker is not None and known is function:
            return self._maker
        config, keeper = self._keeper.config, self._keeper
        maker = KeyMaker(function, config.key, keeper.instances)
        if maker.of_instances and not keeper.shelf.store.local:
            raise AmbiguousKeyError(
                f"{fields.show(function)}: is a method, and what its instances hold is known to this"
                " process only: with a shared store give key=, a function of the same arguments"
            )
        own = _beneath(function)
        shown = fields.show(own)
        if config.key is None and self._maker is not None and not self._is_known(known, own):
            raise AmbiguousKeyError(
                f"{shown}: cache {keeper.name!r} is around {self._shown}, and keys made of the arguments alone would mix their values: give key=, or make"
                " another cache"
            )
        _claim(self, keeper)
        self._known, self._maker, self._shown = _weakly(own), maker, shown
        self._name = _name_of(own)
        return maker

    def _is_known(self, known: Any, function: Any) -> bool:
        """Tell whether a function is the one the keys are of; that may be gone."""
        return _same(known, function) if known is not None else _again(self._name, function)

    def decorated(self, function: Any) -> None:
        """Hear that a function was decorated."""
        others = [
            one
            for one in self._decorated
            if (known := one()) is not None and not _same(known, function)
        ]
        self._several = self._several or bool(others)
        self._only = None if self._several else function
        self._decorated = [*others, _weakly(function)]

    def only(self, asked: str) -> Any:
        """Return the one function that is decorated.

        Raises:
            TypeError: there is none, or there are several.
        """
        found = [function for one in self._decorated if (function := one()) is not None]
        if len(found) == 1:
            return found[0]
        how = "several functions" if found else "no function"
        raise TypeError(
            f"{asked}: cache {self._keeper.name!r} is around {how}, so there is none to call:"
            " decorate one function"
        )


def _bound_to(function: Any) -> Any:
    """Return the object that a callable is bound to, if it is; a proxy may have whatever attribute it is asked for."""
    bound = isinstance(function, _BOUND) or (
        inspect.getattr_static(function, "__self__", None) is not None
    )
    return function.__self__ if bound else None


#: Also what a proxy says it is.
_BOUND = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)


def _nothing() -> None:
    """In place of a reference to a function."""


def _weakly(function: Any) -> Callable[[], Any]:
    """Return what leads to a function as long as somebody else has it."""
    try:
        return weakref.ref(function)
    except TypeError:  # an object with __slots__, which is somebody's for good
        return lambda: function


def _claim(origin: Origin, keeper: StaleKeeper) -> None:
    """Take the keys of a store that begin with a cache's name, if that may be another's name, too.

    Raises:
        AmbiguousKeyError: another cache has taken them.
    """
    if keeper.config.store is None or not ("<" in keeper.name or keeper.name == "unnamed"):
        return
    try:
        taken = _claims.setdefault(keeper.config.store, weakref.WeakValueDictionary())
    except TypeError:
        return  # a store of the user's that cannot be referred to weakly
    if taken.setdefault(keeper.prefix, origin) is not origin:
        raise AmbiguousKeyError(
            f"two caches called {keeper.name!r} share a store, and would mix their values: give"
            " them names, stale_if_error('a name', ...)"
        )


#: By store and prefix, for names that several functions may have: who has them.
_claims: weakref.WeakKeyDictionary[Any, weakref.WeakValueDictionary[str, Origin]]
_claims = weakref.WeakKeyDictionary()


#: What layers of pipelines have.
_LAYER = "_breakerkit_gives_first"


def _beneath(function: Any) -> Any:
    """Return the user's own function: layers are made anew for each call through a pipeline."""
    while _LAYER in getattr(function, "__dict__", ()):  # a mock has any other way of having it
        function = function.__wrapped__
    return function


def _same(one: Any, other: Any) -> bool:
    """Tell whether two are one function; a module that is loaded again makes it anew."""
    if one is other:
        return True
    return _again(_name_of(one), other)


def _name_of(function: Any) -> tuple[Any, Any]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


def _again(name: tuple[Any, Any], function: Any) -> bool:
    """Tell whether a function is one of this name, made anew."""
    return name == _name_of(function) and isinstance(name[1], str) and "<" not in name[1]


def _check_sync(config: StaleConfig) -> None:
    """Refuse an async disaster strategy where nobody could await it.

    Raises:
        TypeError: as said.
    """
    if fields.is_coroutine_function(config.disaster) or inspect.isasyncgenfunction(config.disaster):
        raise TypeError(
            f"disaster={fields.show(config.disaster)}: is async, and the function is not, so nobody"
            " could await it: give a plain one, or make the function async"
        )
