"""Selects the next action among all possible ones, with a random generator of the seed.

Each actor (a slot, the network, the job master) has a random weight that is redrawn occasionally, and may be close to
zero. So one slot starves for a while, or one channel runs far ahead, which uniform choice would hardly ever produce.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import NamedTuple

REDRAW_AFTER_PICKS = 60
WEIGHTS = (0.02, 0.3, 1.0, 1.0, 1.0, 3.0)


class Action(NamedTuple):
    """A possible action. `actor` performs it; `rate` makes it rarer or more frequent than others."""

    actor: str
    run: Callable[[], None]
    rate: float = 1.0


class Scheduler:
    """Draws from the possible actions, which are passed to each draw. Linear in their number."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._weights: dict[str, float] = {}
        self._picks = 0

    def pick(self, actions: list[Action]) -> Action:
        """Return one of `actions`, which must not be empty."""
        self._picks += 1
        if self._picks % REDRAW_AFTER_PICKS == 0:
            self._weights.clear()
        weights = [self._weight(action.actor) * action.rate for action in actions]
        return self._random.choices(actions, weights)[0]

    def _weight(self, actor: str) -> float:
        weight = self._weights.get(actor)
        if weight is None:
            weight = self._weights[actor] = self._random.choice(WEIGHTS)
        return weight


class Agenda:
    """Draws from the possible actions, of which only changes are reported: a draw is logarithmic in their number.

    A binary tree of sums: leaf i has the weight of actor i while it can act (else 0), each inner node the sum of its
    leaves.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._places: dict[Hashable, int] = {}
        self._runs: list[Callable[[], None]] = []
        self._weights: list[float] = []
        self._rates: list[float] = []
        self._size = 64
        self._sums = [0.0] * (2 * self._size)
        self._picks_left = REDRAW_AFTER_PICKS
        self._possible = 0
        self._background: set[Hashable] = set()

    @property
    def idle(self) -> bool:
        """Whether only background actions are possible."""
        return not self._possible

    def enter(self, actor: Hashable, run: Callable[[], None], rate: float = 1.0) -> None:
        """Make an action possible."""
        place = self._places.get(actor)
        if place is None:
            place = self._places[actor] = len(self._runs)
            self._runs.append(run)
            self._weights.append(self._random.choice(WEIGHTS))
            self._rates.append(0.0)
            if place == self._size:
                self._size *= 2
                self._add_up()
        if not self._rates[place] and actor not in self._background:
            self._possible += 1
        if self._rates[place] != rate:
            self._runs[place] = run
            self._set(place, rate)

    def enter_background(self, actor: Hashable, run: Callable[[], None], rate: float) -> None:
        """Make an action permanently possible.

        It does not count as activity: time may advance while only it is left.
        """
        self._background.add(actor)
        self.enter(actor, run, rate)

    def leave(self, actor: Hashable) -> None:
        """Make an action impossible."""
        place = self._places.get(actor)
        if place is not None and self._rates[place]:
            if actor not in self._background:
                self._possible -= 1
            self._set(place, 0.0)

    def pick(self) -> Callable[[], None]:
        """Return a possible action; there must be one."""
        self._picks_left -= 1
        if not self._picks_left:
            # Redraw all weights together, but not more often than there are actors: the amortised cost of a draw
            # must not be linear in their number.
            self._picks_left = max(REDRAW_AFTER_PICKS, len(self._runs))
            self._weights = self._random.choices(WEIGHTS, k=len(self._runs))
            self._add_up()
        sums, node = self._sums, 1
        left = self._random.random() * sums[1]
        while node < self._size:
            node *= 2
            # The right child is taken only if it has weight: rounding errors can leave `left` at or above the sum of
            # the left child when nothing on the right can act.
            if left >= sums[node] and sums[node + 1]:
                left -= sums[node]
                node += 1
        return self._runs[node - self._size]

    def _set(self, place: int, rate: float) -> None:
        self._rates[place] = rate
        sums, node = self._sums, place + self._size
        sums[node] = self._weights[place] * rate
        while node > 1:
            node //= 2
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def _add_up(self) -> None:
        leaves = [weight * rate for weight, rate in zip(self._weights, self._rates, strict=True)]
        sums = [0.0] * self._size + leaves + [0.0] * (self._size - len(leaves))
        for node in range(self._size - 1, 0, -1):
            sums[node] = sums[2 * node] + sums[2 * node + 1]
        self._sums = sums
