"""What each demo is told, once its arguments have been checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "AnyOptions",
    "AvalancheOptions",
    "FailoverOptions",
    "Options",
    "StaleOptions",
    "UsageError",
]


class UsageError(Exception):
    """Say in one line which argument is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of ``breakerkit demo``; ``None`` leaves the choice to the demo.

    Attributes:
        trace: the recording to play; ``None`` is the one that ships.
        speed: seconds of the recording per second of real time.
        threads: client threads.
        svg: where the picture goes, writable when the arguments were read.
    """

    command: ClassVar[str] = "demo"

    trace: Path | None
    speed: float | None
    threads: int | None
    svg: Path


@dataclass(frozen=True, slots=True)
class AvalancheOptions:
    """The arguments of ``breakerkit demo avalanche``; ``None`` leaves the choice to the demo.

    Attributes:
        trace: the recording whose outage is played; ``None`` is the one that ships.
        speed: seconds of the recording per second of real time.
        svg: where the picture goes.
    """

    command: ClassVar[str] = "demo avalanche"

    trace: Path | None
    speed: float | None
    svg: Path


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """The arguments of ``breakerkit demo failover``.

    Attributes:
        speed: how many times as fast the play goes.
        svg: where the picture goes.
    """

    command: ClassVar[str] = "demo failover"

    speed: float
    svg: Path


@dataclass(frozen=True, slots=True)
class StaleOptions:
    """The arguments of ``breakerkit demo stale``; ``None`` leaves the choice to the demo.

    Attributes:
        trace: the recording as whose service the price service fares; ``None`` is
            the one that ships.
        speed: seconds of the recording per second of real time.
        svg: where the picture goes.
    """

    command: ClassVar[str] = "demo stale"

    trace: Path | None
    speed: float | None
    svg: Path


AnyOptions: TypeAlias = Options | AvalancheOptions | FailoverOptions | StaleOptions
