"""The signature of a function that is given an argument its callers leave out."""

from __future__ import annotations

import inspect
import types
from typing import Any

from breakerkit._fields import show
from breakerkit._shell._wrapped import GIVES_FIRST

_BY_POSITION = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def check_takes_one(function: Any) -> None:
    """Refuse what cannot be given an argument by position; if nobody knows, it can.

    Raises:
        TypeError: as said.
    """
    signature = _signature(function)
    if signature is None:
        return
    kinds = {one.kind for one in signature.parameters.values()}
    if not kinds & {*_BY_POSITION, inspect.Parameter.VAR_POSITIONAL}:
        raise TypeError(f"{show(function)}: must take what it is given as its first argument")


def hide_first(guarded: Any, bare: Any) -> None:
    """Let ``guarded`` show the signature that its callers see; frameworks read it.

    Args:
        guarded: a function; anything else stays as it is.
        bare: the function behind it, whose first argument after ``self`` or
            ``cls`` is left out.
    """
    signature = _signature(bare) if type(guarded) is types.FunctionType else None
    listed = [] if signature is None else list(signature.parameters.values())
    at = 1 if listed and listed[0].name in {"self", "cls"} else 0
    if signature is not None and len(listed) > at and listed[at].kind in _BY_POSITION:
        del listed[at]
        guarded.__signature__ = signature.replace(parameters=listed)


def show_given(function: Any) -> None:
    """Do so for the layers of a pipeline around a function, for a call: what is decorated shows it already."""
    layers = []
    while GIVES_FIRST in getattr(function, "__dict__", ()):  # a mock has any other way of having it
        layers.append(function)
        function = function.__wrapped__
    for layer in reversed(layers):
        if getattr(layer, GIVES_FIRST) and not hasattr(layer, "__signature__"):
            hide_first(layer, layer.__wrapped__)


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except Exception:  # a builtin has none, and a proxy may raise whatever it likes
        return None
