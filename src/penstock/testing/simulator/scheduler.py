"""What happens next: one of all that could, drawn by a generator of the seed.

Each actor (a slot, the network, the JobManager) has a weight that is drawn anew now and then, some of them nearly zero:
so that one slot starves for a while, or one channel runs far ahead, which an even choice would hardly ever give.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

_REDRAW_AFTER_PICKS = 60
_WEIGHTS = (0.02, 0.3, 1.0, 1.0, 1.0, 3.0)


class Action(NamedTuple):
    """Something that could happen now. `actor` is who does it; `rate` makes it rarer or more frequent than others."""

    actor: str
    run: Callable[[], None]
    rate: float = 1.0


class Scheduler:
    """Draws from the actions that are possible."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._weights: dict[str, float] = {}
        self._picks = 0

    def pick(self, actions: list[Action]) -> Action:
        """One of `actions`, which must not be empty."""
        self._picks += 1
        if self._picks % _REDRAW_AFTER_PICKS == 0:
            self._weights.clear()
        weights = [self._weight(action.actor) * action.rate for action in actions]
        return self._random.choices(actions, weights)[0]

    def _weight(self, actor: str) -> float:
        weight = self._weights.get(actor)
        if weight is None:
            weight = self._weights[actor] = self._random.choice(_WEIGHTS)
        return weight
