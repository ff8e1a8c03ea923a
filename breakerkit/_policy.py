"""What users hold of any policy: decorate with it, call through it, ask it, listen to it, change it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TypeVar

from breakerkit import _fields as fields
from breakerkit._shell._around import run_around, under, unless_cancelled
from breakerkit._shell._objects import check_callable, guard_callable
from breakerkit._shell._shapes import shape_of
from breakerkit._shell._wrapped import guarded_by
from breakerkit.cancel import CancelSignal

if TYPE_CHECKING:
    from breakerkit._keeper import Keeper
    from breakerkit._shell._shapes import Shape

P = ParamSpec("P")
R = TypeVar("R")


class Unnamed(str):
    """A name that is told from one that a user gave, though it may read the same."""

    __slots__ = ()


#: The name of a policy that was given none and has decorated nothing yet.
UNNAMED = Unnamed("unnamed")


class Policy:
    """A policy by name; one object serves threads, tasks and event loops, sync and async."""

    __slots__ = ("__weakref__", "_guard", "_named")

    #: The verb that makes it, and the attribute of a guarded function that leads to it.
    kind: ClassVar[str]
    #: The errors that any of its kind raises by itself.
    errors: ClassVar[tuple[type[BaseException], ...]] = ()
    #: The class of its settings.
    settings: ClassVar[type[Any]]
    #: What stands behind it: ``keeper(name, config, clock, hub)``.
    keeper: ClassVar[type[Any]]

    def __init__(self, guard: Any, *, named: bool = False, **settings: Any) -> None:
        if not isinstance(guard, self.keeper) or settings:
            raise TypeError(
                f"make a {type(self).__name__} with {self.kind}(name, ...), not with its class"
            )
        self._guard: Any = guard
        self._named = named

    # -- use ---------------------------------------------------------------

    def __call__(self, target: Any, /) -> Any:
        """Decorate ``target``; what this policy guards already is returned as it is.

        Each kind says in its own ``__call__`` what type comes out.

        Raises:
            TypeError: it cannot be guarded; never a silent no-op.
        """
        bare: Any = getattr(target, "__func__", target)
        check_callable(bare)
        if guarded_by(self, bare):
            return target
        self._serve(shape_of(bare))
        self._name_after(bare)
        made = guard_callable(target, self, self._decorating)
        self._shown(getattr(made, "__func__", made), bare)
        self._decorated(bare)
        return made

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` through the policy; await the result of an async one.

        Raises:
            CallRejectedError: it was not run.
            TypeError: ``function`` is not callable.
        """
        return run_around(self, function, args, kwargs)  # type: ignore[no-any-return]  # what the function returns

    def apply(
        self,
        operation: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        cancel: CancelSignal | None = None,
    ) -> R:
        """Call ``operation(*args, **kwargs)`` unless ``cancel`` is set when it would begin.

        Admission comes first, then the signal. The operation does not get it.

        Raises:
            CallRejectedError: it was not run.
            CallCancelledError: it was let in and not run.
            TypeError: ``operation`` is not callable, ``args`` no sequence, ``kwargs`` no
                mapping, or ``cancel`` no `CancelSignal`.
        """
        given = arguments(args, kwargs, cancel)
        if cancel is None:
            return run_around(self, operation, args, given)  # type: ignore[no-any-return]  # what the operation returns

        def begin() -> Any:
            if guarded_by(self, operation) and not cancel.cancelled:
                return operation(*args, **given)  # it asks the policy by itself, once
            checked = unless_cancelled(operation, cancel, self.name)
            return run_around(self, checked, args, given)

        # A guarded function's own waiting sees the signal where it is borne.
        return under(cancel, begin, operation) if guarded_by(self, operation) else begin()  # type: ignore[no-any-return]  # what the operation returns

    @property
    def raises(self) -> tuple[type[BaseException], ...]:
        """The types of error that it raises by itself."""
        return self.errors

    def leads_to(self, kind: str) -> Any:
        """Return the policy of this kind that a guarded function's attribute leads to, or ``None``."""
        return self if kind == self.kind else None

    # -- what a policy must say of itself ------------------------------------

    def _serve(self, shape: Shape) -> None:
        """Hear that a function of this shape is to be put behind the policy.

        Raises:
            TypeError: it cannot be; says what to do instead.
        """

    def _decorating(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        """Return the same for a function that is decorated: it may be a method, which a call cannot tell."""
        return self._around(function, shape)

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        """Return a bare function of the same shape that runs ``function`` behind the policy.

        It is made for each ``call`` too, so it must be cheap; names and
        signatures are put on by the caller. Where ``function`` returns work
        that is yet to run (a coroutine, a future), that is what the policy is for.
        """
        raise NotImplementedError

    def _shown(self, guarded: Any, bare: Any) -> None:
        """Put right what a decorated function shows, where its callers call it in another way."""

    def _decorated(self, bare: Any) -> None:
        """Hear that a function was decorated: the one behind the policy, inner policies included."""

    def snapshot(self) -> Any:
        """Return a frozen record of all numbers as they belong together now."""
        raise NotImplementedError

    # -- look --------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self._guard.name  # type: ignore[no-any-return]  # a text

    # -- change ------------------------------------------------------------

    def subscribe(
        self, listener: Callable[[Any], object], /, *kinds: type[Any]
    ) -> Callable[[], None]:
        """Tell ``listener`` every event, or those of ``kinds``; return what ends that.

        Raises:
            TypeError: the listener is a coroutine function or not callable, or
                a kind is no event class of this policy.
        """
        keeper: Keeper = self._guard
        return keeper.subscribe(listener, kinds)

    def _reconfigured(self, config: Any, changes: Mapping[str, Any]) -> Any:
        """Swap the settings of the keeper for a whole config, or for changes to the present one."""
        if config is not None and not isinstance(config, self.settings):
            raise TypeError(f"config={fields.show(config)}: must be a {self.settings.__name__}")
        new = fields.evolve(config or self._guard.config, changes)
        self._swap(new)
        return new

    def _swap(self, config: Any) -> None:
        self._guard.reconfigure(config)

    # -- identity ----------------------------------------------------------

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _snapshots(self) -> dict[str, Any]:
        return {self.name: self.snapshot()}

    def _name_after(self, target: Any) -> None:
        """Take the name of the first function decorated, if none was given."""
        if isinstance(self._guard.name, Unnamed):
            self._guard.rename(qualified(target))


def arguments(args: Any, kwargs: Any, cancel: Any) -> Mapping[str, Any]:
    """Check what ``apply`` was given and return the keywords.

    Raises:
        TypeError: one of them is not of its kind.
    """
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise TypeError(f"args={fields.show(args)}: must be a list or tuple of arguments")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs={fields.show(kwargs)}: must be a dict of arguments, or None")
    if cancel is not None and not isinstance(cancel, CancelSignal):
        raise TypeError(f"cancel={fields.show(cancel)}: must be a CancelSignal or None")
    return kwargs or {}


def qualified(target: Any) -> str:
    """Return ``module.qualname`` of a callable, or of what it wraps, or of its type."""
    while isinstance(target, functools.partial):
        target = target.func
    if not isinstance(getattr(target, "__qualname__", None), str):
        target = type(target)
    # Methods of built-in types know their class instead of a module, or neither.
    owner = getattr(target, "__objclass__", None) or getattr(target, "__self__", None)
    module = getattr(target, "__module__", None) or getattr(owner, "__module__", None)
    return f"{module or type(owner).__module__}.{target.__qualname__}"
