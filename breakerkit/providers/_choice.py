"""Who is asked, in which order, and who is passed over: pure choice."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from breakerkit.providers._slots import Health, Member
from breakerkit.providers.config import Order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from breakerkit.providers.config import FailoverConfig

#: A failure that has lost more than half its weight no longer makes a provider worse than others.
SLIGHT = 0.5


class Choice(NamedTuple):
    """The providers a call may be given, the best first.

    Attributes:
        due: those whose breaker waits for a probe: first, for nobody recovers
            who is never asked.
        ready: all others, in the order wanted.
        bypassed: which of them are asked although their breaker is open.
        skipped: who is passed over.
    """

    due: list[Member]
    ready: list[Member]
    bypassed: list[Member]
    skipped: list[Member]

    def line(self) -> list[Member]:
        """Return all that may be asked."""
        return [*self.due, *self.ready]


def choose(members: Sequence[Member], config: FailoverConfig, turn: int, now: float) -> Choice:
    """Look at every provider's breaker and put those that may be asked in order.

    At most ``max_ejected`` percent are skipped. Of further broken ones the
    least broken stay; where the load is to be spread they keep their place, for
    the few that are well shall not bear it all; else they come last.
    """
    if all(member.gate.fast is not None for member in members):  # as it nearly always is
        return Choice([], _ordered(list(members), [], config.order, turn, now), [], [])
    seen = [(member, member.slot.watch.health()) for member in members]
    broken = [member for member, health in seen if health is Health.BROKEN]
    barred = [member for member, health in seen if health is Health.BARRED]
    allowed = int(len(members) * config.max_ejected // 100)
    bypassed: list[Member] = []
    if (more := len(broken) + len(barred) - allowed) > 0:
        broken.sort(key=lambda member: member.slot.watch.badness())
        bypassed, broken = broken[:more], broken[more:]
    due = [member for member, health in seen if health is Health.DUE]
    out = {id(member) for member in (*broken, *barred, *due)}
    ready = [member for member in members if id(member) not in out]
    return Choice(
        due, _ordered(ready, bypassed, config.order, turn, now), bypassed, broken + barred
    )


def _ordered(
    ready: list[Member], bypassed: list[Member], order: Order, turn: int, now: float
) -> list[Member]:
    if order is Order.RANDOM:
        return random.sample(ready, len(ready))
    if order is Order.ROUND_ROBIN:
        return _turned(ready, turn)
    if order is Order.IN_ORDER:
        return sorted(ready, key=lambda member: member in bypassed)
    weights = {id(member): (member in bypassed, _weight(member, now)) for member in ready}
    ready.sort(key=lambda member: weights[id(member)])
    # Those that are equally good share the load.
    equals = sum(1 for member in ready if weights[id(member)] == weights[id(ready[0])])
    return [*_turned(ready[:equals], turn), *ready[equals:]]


def _turned(members: list[Member], turn: int) -> list[Member]:
    start = turn % len(members) if members else 0
    return members[start:] + members[:start]


def _weight(member: Member, now: float) -> float:
    weight = member.slot.weight(now)
    return weight if weight >= SLIGHT else 0.0
