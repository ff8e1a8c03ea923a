"""The one mutable thing of a failover: its settings, who is listed, whose turn it is."""

from __future__ import annotations

import itertools
from random import random
from typing import TYPE_CHECKING, Any

from breakerkit._ambient import binding, limit
from breakerkit._outcome import Classifier, Outcome
from breakerkit.providers import _view as views
from breakerkit.providers._choice import SLIGHT, choose
from breakerkit.providers._many import Broadcast, Forking
from breakerkit.providers._recorder import Recorder
from breakerkit.providers._retries import Retries
from breakerkit.providers._roster import Roster
from breakerkit.providers._single import FailBack, FailFast, FailSafe
from breakerkit.providers._slots import Slot
from breakerkit.providers._tries import Tries
from breakerkit.providers.config import FailoverConfig, Order, Strategy

if TYPE_CHECKING:
    from breakerkit._hub import Hub
    from breakerkit.clock import Clock
    from breakerkit.providers._choice import Choice
    from breakerkit.providers._provider import Provider
    from breakerkit.providers._slots import Attempt, Equip, Member

TRIES: dict[Strategy, type[Tries]] = {
    Strategy.FAILOVER: Tries,
    Strategy.FAILFAST: FailFast,
    Strategy.FAILSAFE: FailSafe,
    Strategy.FAILBACK: FailBack,
    Strategy.BROADCAST: Broadcast,
    Strategy.FORKING: Forking,
}


def _at_random(count: int) -> int:
    return int(random() * count)  # noqa: S311  # it spreads load, nothing is secret


class FailoverKeeper(Recorder):
    """Providers, settings and counters of one failover.

    Args:
        name: its name.
        config: its settings.
        clock: where its time comes from.
        parent: the listeners of its registry.
        source: the list of providers, or what returns it.
        equip: makes a provider's breaker.
        runner: runs what is tried again in the background.
    """

    __slots__ = ("_equip", "_pick", "classifier", "config", "retries", "roster", "turns")

    def __init__(
        self,
        name: str,
        config: FailoverConfig,
        clock: Clock,
        parent: Hub | None,
        source: Any,
        equip: Equip,
        runner: Any,
    ) -> None:
        super().__init__(name, clock, parent)
        self._equip = equip
        self.turns = itertools.count()
        self.roster = Roster(source, self._slot, lambda: self.lock)
        self.retries = Retries(self, runner)
        self.adopt(config)

    def adopt(self, config: FailoverConfig) -> None:
        """Take new settings. Under the lock."""
        self.config = config
        self.classifier = Classifier(self.name, config.on, (), (), None)
        self._pick = {Order.IN_ORDER: None, Order.RANDOM: _at_random}.get(config.order, self._turn)
        self._stir()

    def _turn(self, count: int) -> int:
        return next(self.turns) % count

    def _slot(self, name: str, provider: Provider[Any]) -> Slot:
        return Slot(name, self._equip(f"{self.name}[{name}]", provider, self.config))

    # -- the usual case ------------------------------------------------------

    def quick(self) -> Member | None:
        """Return whom to give a call at once; ``None`` where more must be looked at first.

        In the usual case all are well, and so none is due for a probe; who
        comes first is a matter of order alone.
        """
        if self._calm != self._trouble:
            return None
        one = limit.get()
        if one is not None and binding(one)[0] <= 0:
            return None
        roster = self.roster
        same = roster.fixed or roster.unchanged()
        members = roster.members if same else roster.read(self.name)
        pick = self._pick
        if pick is None or not members:
            return members[0] if members else None
        return members[pick(len(members))]

    # -- what needs a closer look ---------------------------------------------

    def begin(self, work: Any) -> Tries:
        """Return the tries of one call.

        Args:
            work: what is called, for the strategy that calls it again later.
        """
        return TRIES[self.config.strategy](self, work)

    def adopt_first(self, work: Any, member: Member, entry: Any) -> tuple[Tries, Attempt]:
        """Return the tries of a call whose first is under way, and that one."""
        tries = self.begin(work)
        return tries, tries.adopt(member, entry)

    def resume(
        self, work: Any, member: Member, entry: Any, error: BaseException, later: Any = None
    ) -> Tries | None:
        """Return the tries of a call whose first has failed; ``None``: the error is the caller's."""
        tries, attempt = self.adopt_first(work, member, entry)
        return tries if tries.failed(attempt, error, later) else None

    def choose(self, turn: int) -> tuple[Choice, int]:
        """Return who may be asked, in order, and how many are listed."""
        seen, now = self._trouble, self.clock.now()
        members = self.roster.read(self.name)
        choice = choose(members, self.config, turn, now)
        calm = not (choice.due or choice.bypassed or choice.skipped) and self._level(members, now)
        self._settle(seen, members, calm=calm)
        return choice, len(members)

    def _settle(self, seen: int, members: tuple[Member, ...], *, calm: bool) -> None:
        """Take in whether all are well, unless somebody has failed since the look began."""
        with self.lock:
            if seen == self._trouble:
                self._calm = seen if calm else -1
                first = calm and self._pick is None and self.roster.fixed and members
                self.ready = members[0] if first else None

    def _level(self, members: tuple[Member, ...], now: float) -> bool:
        if self.config.order is not Order.LEAST_FAILURES:
            return True
        return all(member.slot.weight(now) < SLIGHT for member in members)

    def is_failure(self, error: BaseException) -> bool:
        """Tell whether another provider may do better; what is neutral or the business's own is not.

        Nor is a limit around the call that has run out: nobody waits for an answer any more.
        """
        return self.classifier.error(error) is Outcome.FAILURE

    # -- life -----------------------------------------------------------------

    def snapshot(self) -> views.FailoverSnapshot:
        """Return all numbers as they belong together now."""
        providers = tuple(map(views.provider, self.roster.seen(self.name)))
        pending = self.retries.pending(self.clock.now())
        with self.lock:
            return views.snapshot(self, providers, pending)

    def reconfigure(self, config: FailoverConfig) -> None:
        """Swap the settings; breakers follow, and are made anew only where there were none, or shall be none."""
        super().reconfigure(config)
        with self.lock:
            slots, changed = self.roster.known(), False
        for slot in slots:
            changed = not slot.watch.follow(config) or changed
        if changed:
            with self.lock:
                self.roster.forget()
                self._stir()

    def rename(self, name: str) -> None:
        """Take a name, once it is known; breakers made before follow."""
        super().rename(name)
        with self.lock:
            self.adopt(self.config)
        for slot in self.roster.known():
            slot.watch.rename(f"{name}[{slot.name}]")

    def reset(self) -> None:
        """Let no failure count any more, and drop what waits (for tests)."""
        with self.lock:
            for slot in self.roster.known():
                slot.clear()
            self._stir()
        self.retries.forget()

    def after_fork(self) -> None:
        """Start with nothing pending: the parent's retries and forks are the parent's."""
        super().after_fork()
        self.losers = 0
        self.retries.after_fork()
