"""What a pipeline is made of: each policy, ours or another's, seen as one layer around a function."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from breakerkit import _fields as fields
from breakerkit._policy import Policy
from breakerkit._shell._shapes import Shape, shape_of
from breakerkit._shell._wrapped import GIVES_FIRST, guarded_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["PolicyLike", "as_policy"]


@runtime_checkable
class PolicyLike(Protocol):
    """What a pipeline takes: a decorator with a name. Every policy here is one; so may yours be.

    Called with a function it returns one that is called the same way: a
    coroutine function for a coroutine function, and so on. It may say more of
    itself, for `Pipeline.explain` and `Pipeline.check`: ``kind``, a word such
    as ``"retry"``, and ``raises``, the types of error it raises by itself.
    """

    name: str

    def __call__(self, function: Any, /) -> Any:
        """Return ``function`` with this policy around it."""
        ...


class Layer:
    """One policy of a pipeline."""

    __slots__ = ("kind", "ours", "policy", "raises")

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        kind = getattr(policy, "kind", None)
        self.kind: str = kind if isinstance(kind, str) else type(policy).__name__
        self.raises: tuple[type[BaseException], ...] = tuple(getattr(policy, "raises", ()))
        self.ours = hasattr(type(policy), "_around")

    @property
    def title(self) -> str:
        """Kind and name, as messages say it."""
        return f"{self.kind} {str(self.policy.name)!r}"

    def serve(self, shape: Shape) -> None:
        """Hear that a function of this shape is to be put inside.

        Raises:
            TypeError: the policy cannot guard it.
        """
        if self.ours:
            self.policy._serve(shape)

    def around(
        self, function: Callable[..., Any], shape: Shape, *, decorating: bool
    ) -> Callable[..., Any]:
        """Return a function of the same shape with this layer around it."""
        policy: Any = self.policy
        made: Any
        told = decorating and isinstance(policy, Policy)
        if told:
            made = policy._decorating(function, shape)
        else:
            made = (policy._around if self.ours else self._foreign)(function, shape)
        if made is function:
            made = _copied(function)  # the user's own, which is not to be written on
        # What looks for the function beneath, or for self among the arguments, goes this way.
        made.__wrapped__ = function
        setattr(made, GIVES_FIRST, getattr(policy, "gives_first", False))
        if told:
            policy._shown(made, function)
            policy._decorated(function)
        return made  # type: ignore[no-any-return]  # a function

    def _foreign(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        """Decorate by another's policy, and see that what comes out is called the same way."""
        made: Any = self.policy(function)
        if not callable(made):
            raise TypeError(
                f"{self.title} returned {fields.show(made)} for a function: a policy returns a"
                " function that is called the same way"
            )
        got = shape_of(made)
        if got is shape:
            return made if hasattr(made, "__dict__") else _called(made)
        if shape is Shape.COROUTINE and got is Shape.PLAIN:
            return _awaited(made)
        raise TypeError(
            f"{self.title} made a {got.value} function of a {shape.value} function: a policy"
            " returns a function that is called the same way"
        )


def _copied(function: Any) -> Any:
    """Return a function that does the same and is another object."""
    if type(function) is not types.FunctionType:
        return _called(function)
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _called(made: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    return called


def _awaited(made: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does not know async returns a plain function that returns the coroutine."""

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return await made(*args, **kwargs)

    return awaited


def to_policies(policies: Any) -> Any:
    """Return policies, outermost first, or a fault that names the first that is none."""
    for policy in policies:
        reason = _unfit(policy)
        if reason:
            return fields.fault(policy, reason)
    outside = _outside_of_a_process(policies)
    if outside is not None:
        return fields.fault(
            outside,
            "runs calls in processes, so it must be the innermost: what is inside of it"
            " cannot be sent there",
        )
    twice = _twice(policies)
    if twice is not None:
        return fields.fault(
            twice, "is in it twice, breaker= included: each call would ask it twice"
        )
    return tuple(policies)


def _unfit(policy: Any) -> str | None:
    if isinstance(policy, type) or not callable(policy):
        return "must be a policy: a decorator with a name, such as breaker('db')"
    if hasattr(policy, "__wrapped__"):
        return "is a function that is guarded already: give the policy itself, such as f.breaker"
    name = getattr(policy, "name", None)
    if not isinstance(name, str) or not name:
        return (
            "has no name: a policy is a decorator with an attribute `name`; put others in by"
            " as_policy(decorator, name='retry')"
        )
    return None


def _outside_of_a_process(policies: Any) -> Any:
    """Return a bulkhead of processes that has other policies inside."""
    line = [one for one in flat(policies) if not hasattr(type(one), "holds")]
    return next((one for one in line[:-1] if _in_processes(one)), None)


def _in_processes(policy: Any) -> bool:
    isolation = getattr(getattr(policy, "config", None), "isolation", None)
    return getattr(policy, "kind", None) == "bulkhead" and isolation == "process"


def _twice(policies: Any) -> Any:
    seen: set[int] = set()
    for policy in _asked(policies):
        if id(policy) in seen:
            return policy
        seen.add(id(policy))
    return None


def _asked(policies: Any) -> Iterator[Any]:
    """Go through all that a call asks: what a policy asks by itself (a cache's ``breaker=``) included."""
    for policy in flat(policies):
        yield policy
        inner = getattr(getattr(policy, "config", None), "breaker", None)
        if callable(getattr(inner, "call", None)):
            yield from flat([inner])


def flat(policies: Any) -> Iterator[Any]:
    """Go through all policies, those of pipelines inside included, outermost first."""
    for policy in policies:
        yield policy
        if hasattr(type(policy), "holds"):
            yield from flat(policy.policies)


def spread(layers: Iterable[Layer]) -> Iterator[Layer]:
    """Go through layers, outermost first; in place of a pipeline go through its own."""
    for layer in layers:
        if hasattr(type(layer.policy), "holds"):
            yield from spread(layer.policy.layers)
        else:
            yield layer


def compiled(
    layers: Any, function: Callable[..., Any], shape: Shape, *, decorating: bool
) -> Callable[..., Any]:
    """Put all layers around a function, from the innermost out; one that is there already is left out.

    Args:
        layers: outermost first.
        function: what is called.
        shape: how.
        decorating: whether it is decorated, and may be put into a class, or just called.
    """
    made = function
    for layer in reversed(layers):
        if layer.ours and guarded_by(layer.policy, function):
            continue
        made = layer.around(made, shape, decorating=decorating)
    return made


class ForeignPolicy:
    """A decorator of another library under a name, so that a pipeline takes it."""

    __slots__ = ("__weakref__", "_decorator", "kind", "name", "raises")

    def __init__(
        self,
        decorator: Callable[[Any], Any],
        name: str,
        kind: str,
        raises: tuple[type[BaseException], ...],
    ) -> None:
        self._decorator = decorator
        self.name = name
        self.kind = kind
        self.raises = raises

    def __call__(self, function: Any, /) -> Any:
        """Decorate ``function``."""
        return self._decorator(function)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"


def as_policy(
    decorator: Callable[[Any], Any],
    /,
    *,
    name: str,
    kind: str = "policy",
    raises: tuple[type[BaseException], ...] = (),
) -> ForeignPolicy:
    """Return a decorator of another library as a policy that `pipeline` takes.

    Args:
        decorator: called with the function, returns one that is called the same way.
        name: a text that is not empty.
        kind: what it is, in one word; ``"retry"`` lets `Pipeline.check` know a retry.
        raises: the types of error it raises by itself.

    Raises:
        TypeError: an argument is not of its kind.
    """
    if not callable(decorator):
        raise TypeError(f"decorator={fields.show(decorator)}: must be callable with a function")
    for field, text in (("name", name), ("kind", kind)):
        if not isinstance(text, str) or not text:
            raise TypeError(f"{field}={fields.show(text)}: must be a text that is not empty")
    return ForeignPolicy(decorator, name, kind, tuple(raises))
