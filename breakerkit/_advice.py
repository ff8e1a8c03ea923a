"""What the order of a pipeline means: in words, and where it does not do what it seems to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from breakerkit import _fields as fields
from breakerkit._outcome import is_neutral_type
from breakerkit._shell._wrapped import guarded_by
from breakerkit.errors import CallRejectedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from breakerkit._layers import Layer

__all__ = ["Finding"]


@attrs.frozen
class Finding:
    """An order that does not do what it seems to.

    Attributes:
        outer: the policy that stands outside, as kind and name.
        inner: the policy that stands inside of it.
        problem: what happens.
        better: what to write instead.
    """

    outer: str
    inner: str
    problem: str
    better: str

    def __str__(self) -> str:
        return f"{self.outer} around {self.inner}: {self.problem}. Better: {self.better}"


def explanation(name: str, layers: Sequence[Layer]) -> str:
    """Return one line per layer, outermost first: what it is, and what reaches it from inside."""
    if not layers:
        return f"pipeline {str(name)!r}: no policies, calls just run"
    lines = [f"pipeline {str(name)!r}, outermost first:"]
    for number, layer in enumerate(layers, 1):
        lines.append(f"{number}. {layer.title}: {_role(layer)}")
        lines.extend(f"   sees {one}" for one in _sees(layer, layers[number:]))
    return "\n".join(lines)


#: What each kind does, for those who read the order.
_ROLES = {
    "breaker": "rejects calls while the dependency is down",
    "bulkhead": "lets in so many calls at a time",
    "timeout": "limits how long a call takes",
    "fallback": "answers in place of a call that failed or was rejected",
    "degradable": "follows the rules an operator sets while it runs",
    "failover": "tries several providers",
    "retry": "calls again what failed",
    "stale_if_error": "serves the last good value while the origin rests or fails",
}


def _role(layer: Layer) -> str:
    return _ROLES.get(layer.kind, "another library's policy" if not layer.ours else "a policy")


def _sees(layer: Layer, inner: Sequence[Layer]) -> Iterator[str]:
    """Say what reaches a layer: what the inner ones raise, and whether the function's own errors do."""
    hidden = next((one for one in inner if one.kind == "fallback"), None)
    if hidden is not None:
        yield f"the answers of {hidden.title} in place of errors further inside"
        inner = inner[: inner.index(hidden)]
    else:
        yield "values and errors of the function"
    for one in inner:
        for kind in one.raises:
            yield f"{kind.__name__} of {one.title}{_meaning(layer, kind)}"


def _meaning(layer: Layer, kind: type[BaseException]) -> str:
    if layer.kind != "breaker":
        return ""
    return ", which is no evidence" if is_neutral_type(kind) else ", which it judges like any error"


def findings(layers: Sequence[Layer]) -> tuple[Finding, ...]:
    """Return what of this order does not do what it seems to."""
    found = []
    for place, outer in enumerate(layers):
        for inner in layers[place + 1 :]:
            for check in _CHECKS:
                finding = check(outer, inner)
                if finding is not None:
                    found.append(finding)
    return tuple(found)


def _blind_breaker(outer: Layer, inner: Layer) -> Finding | None:
    if outer.kind != "breaker" or inner.kind != "fallback":
        return None
    return Finding(
        outer.title, inner.title,
        "the fallback's answers look like successes, so the breaker never opens",
        f"{inner.title} outside of {outer.title}",
    )  # fmt: skip


def _counts_rejections(outer: Layer, inner: Layer) -> Finding | None:
    """A retry in between may wrap a refusal in an error of its own, which is no rejection any more."""
    if outer.kind != "breaker" or inner.kind != "retry":
        return None
    wraps = [kind for kind in inner.raises if not is_neutral_type(kind)]
    if not wraps:
        return None
    return Finding(
        outer.title, inner.title,
        f"when further policies refuse, the retry's {wraps[0].__name__} hides that, and the breaker"
        " counts refusals as failures",
        "let the retry re-raise the last error (tenacity: reraise=True)",
    )  # fmt: skip


def _useless_timeout(outer: Layer, inner: Layer) -> Finding | None:
    if outer.kind != "timeout" or inner.kind != "timeout":
        return None
    limit, longer = _seconds(outer), _seconds(inner)
    if limit is None or longer is None or longer < limit:
        return None
    return Finding(
        outer.title, inner.title,
        f"{longer:g} s inside of {limit:g} s: the inner limit never comes first",
        f"a limit below {limit:g} s for {inner.title}, or none",
    )  # fmt: skip


def _seconds(layer: Layer) -> float | None:
    seconds = getattr(getattr(layer.policy, "config", None), "seconds", None)
    return seconds if fields.is_number(seconds) else None


def _same_dependency(outer: Layer, inner: Layer) -> Finding | None:
    if outer.kind != "fallback" or not inner.ours:
        return None
    for cure in _cures(outer):
        if guarded_by(inner.policy, cure):
            return Finding(
                outer.title, inner.title,
                f"the fallback {fields.show(cure)} goes through {inner.title} too: when that"
                " refuses, there is no answer left",
                "a cure that does not need the same dependency",
            )  # fmt: skip
    return None


def _cures(layer: Layer) -> Iterator[Any]:
    config = getattr(layer.policy, "config", None)
    for field in ("cure", "for_rejections"):
        cure = getattr(config, field, None)
        if callable(cure):
            yield cure


def _retries_rejections(outer: Layer, inner: Layer) -> Finding | None:
    refuses = [kind for kind in inner.raises if issubclass(kind, CallRejectedError)]
    if outer.kind != "retry" or not refuses or getattr(outer.policy, "spares_rejections", False):
        return None
    return Finding(
        outer.title, inner.title,
        f"it calls again what {inner.title} has just refused with {refuses[0].__name__}",
        "a retry that spares rejections (breakerkit.integrations.tenacity or .stamina), or the"
        f" retry inside of {inner.title}",
    )  # fmt: skip


def _refuses_stored_values(outer: Layer, inner: Layer) -> Finding | None:
    if outer.kind not in {"breaker", "bulkhead"} or inner.kind != "stale_if_error":
        return None
    blind = outer.kind == "breaker"
    why = "while it is open it refuses" if blind else "when it is full it refuses"
    also = ", and stale answers look like successes to it" if blind else ""
    return Finding(
        outer.title, inner.title,
        f"{why} values that are stored as well{also}",
        f"{inner.title} outside of {outer.title}",
    )  # fmt: skip


def _stores_answers(outer: Layer, inner: Layer) -> Finding | None:
    if outer.kind != "stale_if_error" or inner.kind != "fallback":
        return None
    return Finding(
        outer.title, inner.title,
        "the fallback's answers are stored as if the origin had given them, and replace good values",
        f"{inner.title} outside of {outer.title}, or a disaster strategy",
    )  # fmt: skip


_CHECKS = (
    _blind_breaker,
    _counts_rejections,
    _useless_timeout,
    _same_dependency,
    _retries_rejections,
    _refuses_stored_values,
    _stores_answers,
)
