"""One provider as users write it: a value, its name, and what its owner recommends."""

from __future__ import annotations

import hashlib
from typing import Any, Generic, TypeVar

import attrs

from breakerkit import _fields as fields
from breakerkit.providers.config import to_breaker

__all__ = ["Provider"]

T = TypeVar("T")

#: Characters of a value's ``repr`` that a name shows.
LONGEST = 200


def _to_name(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value):
        return value
    return fields.fault(value, "must be a text that is not empty, or None for the value's own")


@attrs.frozen
class Provider(Generic[T]):
    """A provider with a name and settings of its own; a plain value is taken as ``Provider(value)``.

    What the failover is told wins over what its providers say.

    Args:
        value: what the decorated function is given.
        name: what it is called; a text stands for itself, any other value for
            its ``repr``.
        attempts: tries in all of a call that begins here, if the failover does
            not say.
        breaker: its `BreakerConfig`, if the failover does not say; ``True`` =
            the default one, ``None`` = no breaker.

    Raises:
        ConfigError: one of them is wrong.
    """

    value: T
    name: str | None = attrs.field(default=None, converter=_to_name)
    attempts: int | None = attrs.field(
        default=None, converter=fields.to_optional_count, kw_only=True
    )
    breaker: Any = attrs.field(default=True, converter=to_breaker, kw_only=True)

    def __attrs_post_init__(self) -> None:
        # A value may be of any kind, so only what has a converter can be a fault.
        fields.check(self)

    @property
    def label(self) -> str:
        """Its name, or what stands for it."""
        return name_of(self.value) if self.name is None else self.name


def name_of(value: object) -> str:
    """Return what tells a value from others: a text itself, else its ``repr``; a long one is cut and hashed."""
    try:
        text = value if isinstance(value, str) and value else repr(value)
    except Exception:
        text = f"{fields.show(value)} at {id(value):#x}"
    if len(text) <= LONGEST:
        return str(text)
    # Not hash(): that of a text is another one in each process, and names stand in logs of many.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{text[:LONGEST]}...{digest}"


def wrapped(value: Any) -> Provider[Any]:
    """Return a provider as it is, and any other value as one."""
    return value if isinstance(value, Provider) else Provider(value)
