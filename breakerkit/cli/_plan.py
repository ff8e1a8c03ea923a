"""What of a recording is played, how fast, and when its service was down."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from breakerkit.cli._display import Panel
from breakerkit.cli._trace import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from breakerkit.cli._trace import Recording

__all__ = ["Outage", "Plan", "make_plan", "outages", "stretches"]

#: Seconds that one run takes by default; the demo makes two.
RUN_SECONDS = 15.0

#: Calls per second of real time that two cores can issue, serve and draw without
#: falling behind, a slow and shared machine included.
PACE = 900.0

_MOST_THREADS = 400
_BURST = 3  # failures


class Outage(NamedTuple):
    """A time in which most calls failed; seconds of the recording."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What is going to be played.

    Attributes:
        name: the recording's name.
        calls: the calls that are issued, in the order of their start.
        recorded: how many the recording has; more than ``calls`` if sampled.
        span: seconds of the recording, from its first start to its last end.
        speed: seconds of the recording per second of real time.
        threads: client threads.
        outages: when most calls failed.
        silences: when the service did not listen at all.
    """

    name: str
    calls: tuple[Call, ...]
    recorded: int
    span: float
    speed: float
    threads: int
    outages: tuple[Outage, ...]
    silences: tuple[Outage, ...]

    @property
    def panels(self) -> dict[str, Panel]:
        """The runs that are made of it."""
        return {"bare": Panel("without a breaker"), "guarded": Panel("behind a breaker")}


def make_plan(recording: Recording, speed: float | None = None, threads: int | None = None) -> Plan:
    """Decide speed, sample and threads for a recording.

    Args:
        recording: what to play.
        speed: recorded seconds per real second; ``None`` makes a run last about
            `RUN_SECONDS`, and never slows down.
        threads: client threads; ``None`` takes as many as calls overlapped.
    """
    span = max(recording.span, 0.001)
    speed = speed or max(1.0, span / RUN_SECONDS)
    calls = _sample(recording.calls, int(max(1.0, span / speed) * PACE))
    return Plan(
        name=recording.name,
        calls=calls,
        recorded=len(recording.calls),
        span=span,
        speed=speed,
        threads=threads or min(_most_threads(), _overlap(calls) + 8),
        outages=outages(recording.calls, span),
        silences=_silences(calls),
    )


def _sample(calls: Sequence[Call], most: int) -> tuple[Call, ...]:
    """Keep at most so many calls, evenly over time, and the share of failures as it is."""
    if len(calls) <= most:
        return tuple(calls)
    share = most / len(calls)
    seen = {True: 0, False: 0}
    kept = []
    for call in calls:
        # Counting both kinds apart keeps a burst of either from being thinned more.
        before = seen[call.failed]
        seen[call.failed] = before + 1
        if int((before + 1) * share) > int(before * share):
            kept.append(call)
    return tuple(kept)


def _most_threads() -> int:
    # A thread has a connection, and a process may have only so many; 256 in all is
    # what some systems grant.
    try:
        import resource  # noqa: PLC0415  # there is none on Windows
    except ImportError:  # Windows, which has no such limit
        return _MOST_THREADS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = soft != resource.RLIM_INFINITY
    return max(8, min(_MOST_THREADS, soft - 64)) if limited else _MOST_THREADS


def _overlap(calls: Iterable[Call]) -> int:
    edges = sorted(edge for call in calls for edge in ((call.start, 1), (call.end, -1)))
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def outages(calls: Sequence[Call], span: float) -> tuple[Outage, ...]:
    """Return when at least half of the calls that ended were failures, for at least two slices.

    A slice is a second, or 1/200 of a longer recording, and one with fewer than
    three failures does not count: neither a single error nor a burst is an outage.
    """
    return stretches([(call.end, call.failed) for call in calls], span)


def stretches(calls: Iterable[tuple[float, bool]], span: float) -> tuple[Outage, ...]:
    """Return when most calls were bad, of pairs of a call's moment and whether it was.

    `outages` says how long that must be, and how many they must be.
    """
    width = max(1.0, span / 200)
    found: list[Outage] = []
    by_slice: dict[int, list[tuple[float, bool]]] = {}
    for moment, bad in calls:
        by_slice.setdefault(int(moment / width), []).append((moment, bad))
    for place in sorted(by_slice):
        failed = [moment for moment, bad in by_slice[place] if bad]
        if len(failed) < _BURST or 2 * len(failed) < len(by_slice[place]):
            continue
        if found and place * width - found[-1].ended <= 3 * width:
            found[-1] = Outage(found[-1].began, max(failed))
        else:
            found.append(Outage(min(failed), max(failed)))
    return tuple(outage for outage in found if outage.ended - outage.began >= 2 * width)


def _silences(calls: Sequence[Call]) -> tuple[Outage, ...]:
    """Return the times in which every call that began was refused.

    The service stops listening half-way between the last call that was heard
    and the first that was not, so that a call a little late finds what it should.
    A call refused between others that were answered is no silence: the service
    breaks that one connection instead.
    """
    found: list[Outage] = []
    began: float | None = calls[0].start if calls[0].answer is Answer.REFUSED else None
    for before, after in pairwise(calls):
        middle = (before.start + after.start) / 2
        if after.answer is Answer.REFUSED and began is None:
            began = middle
        elif after.answer is not Answer.REFUSED and began is not None:
            found.append(Outage(began, middle))
            began = None
    if began is not None:
        found.append(Outage(began, calls[-1].start + 1))
    return tuple(silence for silence in found if silence.ended - silence.began >= 1)
