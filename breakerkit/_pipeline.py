"""Several policies as one: outermost first, compiled into one function."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from breakerkit import _fields as fields
from breakerkit import _layers as stack
from breakerkit._advice import Finding, explanation, findings
from breakerkit._keeper import Keeper
from breakerkit._layers import Layer
from breakerkit._making import Making, pickles_by_name
from breakerkit._policy import Policy
from breakerkit._shell._around import under

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from breakerkit._hub import Hub
    from breakerkit._registry import Registry
    from breakerkit._shell._shapes import Shape
    from breakerkit.cancel import CancelSignal
    from breakerkit.clock import Clock

__all__ = ["Pipeline", "PipelineSnapshot", "PipelineWarning", "pipeline"]

F = TypeVar("F")
R = TypeVar("R")


class PipelineWarning(UserWarning):
    """An order of policies that does not do what it seems to; the text says the better one."""


@attrs.frozen(kw_only=True)
class PipelineConfig:
    """The policies of a pipeline, outermost first."""

    policies: tuple[Any, ...] = attrs.field(default=(), converter=stack.to_policies)

    def __attrs_post_init__(self) -> None:
        fields.check(self)


class _Keeper(Keeper):
    """What stands behind a pipeline; its policies have their own."""

    __slots__ = ("config", "layers")

    def __init__(self, name: str, config: PipelineConfig, clock: Clock, parent: Hub | None) -> None:
        super().__init__(name, clock, parent)
        self.config = config
        self.layers = tuple(map(Layer, config.policies))


@attrs.frozen
class PipelineSnapshot:
    """The snapshots of a pipeline's policies.

    Attributes:
        name: name of the pipeline.
        layers: kind, name and snapshot of each policy, outermost first; the
            snapshot is ``None`` for a policy that has none.
    """

    name: str
    layers: tuple[tuple[str, str, Any], ...]


class Pipeline(Policy):
    """Several policies around one call, the first outermost; itself a policy, so pipelines nest."""

    __slots__ = ()

    kind = "pipeline"
    settings = PipelineConfig
    keeper = _Keeper

    def __call__(self, target: F, /) -> F:
        """Decorate ``target`` with all of them at once.

        Raises:
            TypeError: one of them cannot guard it; says which and why.
        """
        made: Any = super().__call__(target)
        bare: Any = getattr(made, "__func__", made)
        if hasattr(bare, "__code__"):  # a proxy finds them by itself
            for layer in reversed(self._spread()):
                setattr(bare, layer.kind, layer.policy)
            bare.pipeline = self
        return made  # type: ignore[no-any-return]  # looks as before

    def apply(
        self,
        operation: Callable[..., R],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        cancel: CancelSignal | None = None,
    ) -> R:
        """Call ``operation(*args, **kwargs)`` unless ``cancel`` is set when it would begin.

        All policies let it in first, then the signal is looked at. The policies
        inside, and `check_deadline` in the operation, see the signal as well.

        Raises:
            CallRejectedError: it was not run.
            CallCancelledError: it was let in and not run; no policy counts that.
            TypeError: an argument is not of its kind.
        """
        if cancel is None:
            return super().apply(operation, args, kwargs)

        def run() -> Any:
            return super(Pipeline, self).apply(operation, args, kwargs, cancel=cancel)

        return under(cancel, run, operation)  # type: ignore[no-any-return]  # what the operation returns

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its policies as layers, outermost first."""
        return self._guard.layers  # type: ignore[no-any-return]  # the keeper's

    @property
    def policies(self) -> tuple[Any, ...]:
        """Its policies, outermost first."""
        return tuple(layer.policy for layer in self.layers)

    def snapshot(self) -> PipelineSnapshot:
        """Return the snapshots of all its policies."""
        seen = []
        for layer in self.layers:
            look = getattr(layer.policy, "snapshot", None)
            seen.append((layer.kind, str(layer.policy.name), look() if look else None))
        return PipelineSnapshot(self.name, tuple(seen))

    def subscribe(
        self, listener: Callable[[Any], object], /, *kinds: type[Any]
    ) -> Callable[[], None]:
        """Tell ``listener`` the events of all its policies; return what ends that.

        Raises:
            TypeError: the listener is not of that sort, or a kind is told by none of them.
        """
        takers = [one.policy for one in self.layers if hasattr(one.policy, "subscribe")]
        ended: list[Callable[[], None]] = []
        left = set(kinds)
        for policy in takers:
            for kind in kinds or (None,):
                try:
                    ended.append(policy.subscribe(listener, *(() if kind is None else (kind,))))
                except TypeError:
                    if kind is None:
                        raise
                else:
                    left.discard(kind)
        if left:
            for end in ended:
                end()
            names = ", ".join(sorted(fields.show(kind) for kind in left))
            raise TypeError(f"kind={names}: no policy of {self.name!r} tells such an event")

        def unsubscribe() -> None:
            for end in ended:
                end()

        return unsubscribe

    def explain(self) -> str:
        """Return the order in words: each policy, and what of the inner ones reaches it.

        The policies of a pipeline inside stand in its place.
        """
        return explanation(self.name, self._spread())

    def check(self) -> tuple[Finding, ...]:
        """Return what the order does that it does not seem to do, each with the better order."""
        return findings(self._spread())

    def leads_to(self, kind: str) -> Any:
        """Return itself, or its outermost policy of this kind, or ``None``."""
        if kind == self.kind:
            return self
        return next((one.policy for one in self._spread() if one.kind == kind), None)

    def holds(self, policy: object) -> bool:
        """Tell whether ``policy`` is in it, or in a pipeline inside."""
        return any(one is policy for one in stack.flat(self.policies))

    def _spread(self) -> tuple[Layer, ...]:
        return tuple(stack.spread(self.layers))

    def __str__(self) -> str:
        return self.explain()

    def _serve(self, shape: Shape) -> None:
        for layer in self.layers:
            layer.serve(shape)

    @property
    def gives_first(self) -> bool:
        """Whether what is decorated takes one argument more than callers give, its first."""
        return any(getattr(one.policy, "gives_first", False) for one in self.layers)

    def _shown(self, guarded: Any, bare: Any) -> None:
        for policy in self.policies:
            if isinstance(policy, Policy):
                policy._shown(guarded, bare)

    def _name_after(self, target: Any) -> None:
        """Let each of its policies that has no name take that of the first function decorated."""
        super()._name_after(target)
        for layer in self.layers:
            if isinstance(layer.policy, Policy):
                layer.policy._name_after(target)

    def _around(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        return stack.compiled(self.layers, function, shape, decorating=False)

    def _decorating(self, function: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
        return stack.compiled(self.layers, function, shape, decorating=True)


def pipeline(
    *policies: Any,
    name: str | None = None,
    registry: Registry | None = None,
) -> Pipeline:
    """Make one policy of several, the first outermost: ``pipeline(fallback(...), breaker(...))``.

    Args:
        *policies: policies of this library, pipelines included, or anything
            that is a decorator with a name (see `PolicyLike`, `as_policy`). None
            of them: calls just run.
        name: its name in the registry; ``None`` for one that is not shared. With
            a name and no policies it fetches the one that exists.
        registry: where names live; the shared `registry` by default.

    Raises:
        ConfigError: one of them is no policy, or is in it twice.
        NameConflictError: the name is taken by a pipeline of other policies.

    Warns:
        PipelineWarning: an order that does not do what it seems to (see `Pipeline.check`).
    """
    given = {"policies": policies} if policies or name is None else {}
    made = Making(Pipeline, None, None, registry, given).any(name)
    if policies:
        inside = [one for one in made.policies if isinstance(one, Pipeline)]
        said = {finding for one in inside for finding in one.check()}
        for finding in made.check():
            if finding not in said:  # a pipeline inside has said its own
                warnings.warn(PipelineWarning(f"pipeline {made.name!r}: {finding}"), stacklevel=2)
    return made


pickles_by_name(Pipeline)
