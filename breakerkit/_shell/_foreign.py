"""Guarding code one does not own: patch a name now, or when its module is imported, and take it back."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from breakerkit import _fork as fork
from breakerkit._fields import near, show

if TYPE_CHECKING:
    from collections.abc import Callable

_MISSING = object()


class Patch:
    """One name in one module that is, or will be, replaced by its guarded form."""

    def __init__(self, module: str, path: str, decorate: Callable[[Any], Any]) -> None:
        self._module = module
        self._path = path
        self._decorate = decorate
        self._lock = threading.RLock()
        fork.remember(self)
        self._undone = False
        self._owner: Any = None
        self._name = path.rpartition(".")[2]
        self._before: Any = _MISSING  # what stood in the owner itself
        self._ours: Any = None

    def start(self) -> None:
        """Patch now if the module is there, else when it is imported."""
        module = sys.modules.get(self._module)
        if module is not None:
            self._apply(module)
        else:
            import wrapt  # noqa: PLC0415  # slow to import, and seldom needed

            wrapt.register_post_import_hook(self._apply, self._module)

    def after_fork(self) -> None:
        """Take a fresh lock in a forked child."""
        self._lock = threading.RLock()

    def undo(self) -> None:
        """Put back what was there; before the import: never patch. Twice is no error.

        Raises:
            RuntimeError: somebody has patched the same name since; undo theirs first.
        """
        with self._lock:
            if self._undone or self._owner is None:
                self._undone = True
                return
            if vars(self._owner).get(self._name, _MISSING) is not self._ours:
                raise RuntimeError(
                    f"{self._module}:{self._path} has been replaced since protect(): undo that first"
                )
            self._undone = True
            if self._before is _MISSING:
                delattr(self._owner, self._name)
            else:
                setattr(self._owner, self._name, self._before)

    def _apply(self, module: Any) -> None:
        if self._undone:
            return
        owner = self._walk(module)
        target = vars(owner).get(self._name, _MISSING)
        # The policy may be any decorator: it runs with the lock free.
        guarded = self._decorate(self._inherited(owner) if target is _MISSING else target)
        with self._lock:
            if self._undone:
                return
            setattr(owner, self._name, guarded)
            self._owner, self._before, self._ours = owner, target, guarded

    def _walk(self, module: Any) -> Any:
        owner = module
        for step in self._path.split(".")[:-1]:
            owner = self._step(owner, step)
        return owner

    def _step(self, owner: Any, name: str) -> Any:
        try:
            return getattr(owner, name)
        except AttributeError:
            raise AttributeError(
                f"protect({f'{self._module}:{self._path}'!r}): {show(owner)} has no"
                f" {name!r}{near(name, dir(owner))}"
            ) from None

    def _inherited(self, owner: Any) -> Any:
        for base in getattr(owner, "__mro__", ()):
            if self._name in vars(base):
                return vars(base)[self._name]
        return self._step(owner, self._name)
