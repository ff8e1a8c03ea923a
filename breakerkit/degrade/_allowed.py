"""The exceptions that a text may name: the built-in ones, and those a program has allowed."""

from __future__ import annotations

import builtins
import re
from typing import Any

from breakerkit._fields import near, show
from breakerkit.errors import NameConflictError, RuleError

#: How a text may call an exception: a dotted name.
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)

_BUILT_IN: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}
#: By name, over the whole process, as the built-in ones are. Each operation is atomic.
_given: dict[str, type[Exception]] = {}


def allow(name: str, kind: type[Exception]) -> None:
    """Let a text call ``kind`` by ``name``.

    Raises:
        RuleError: the name is no dotted name, or ``kind`` no class of `Exception`.
        NameConflictError: the name means another exception.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RuleError(f"name={show(name)}: must be a name such as 'requests.Timeout'")
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        raise RuleError(f"{name}={show(kind)}: must be a class of Exception")
    found = _BUILT_IN.get(name) or _given.setdefault(name, kind)
    if found is kind:
        return
    if name in _BUILT_IN or _full(found) != _full(kind):
        raise NameConflictError(
            f"the name {name!r} means {_full(found)}, asked was {_full(kind)}: take another name"
        )
    _given[name] = kind  # the same class, defined anew: a module was loaded again


def kind_of(name: str) -> type[Exception]:
    """Return the exception of this name.

    Raises:
        ValueError: no text may name it.
    """
    found = _given.get(name) or _BUILT_IN.get(name)
    if found is None:
        known = [*_given, *_BUILT_IN]
        given = f", which are {sorted(_given)}" if _given else ""
        raise ValueError(
            f"names {show(name)}, which is not allowed{near(name, known)}: allowed are the built-in"
            f" exceptions, and those given to degradation.allow(name, kind){given}"
        )
    return found


def name_of(kind: type[Exception]) -> str:
    """Return the name a text calls ``kind`` by.

    Raises:
        ValueError: no text may name it.
    """
    if _BUILT_IN.get(kind.__name__) is kind:
        return kind.__name__
    for name, given in list(_given.items()):
        if given is kind:
            return name
    raise ValueError(
        f"raises {_full(kind)}, which has no name: give it to degradation.allow(name, kind)"
    )


def _full(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
