"""Keys that wait for one window at a time: when it has fired, those with contents in the next window wait for that.

A window of thousands of slices would else be noted for each key of each slice. Windows that had fired before a restart
fire again for what comes late, and for nothing else: a key does not wait for the window after one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.state.tables import Layer

_KEYS_UNTIMED = 256


class Succession:
    """Of the windows of one operator, by their starts. `unfired_from`: the first that had not fired at a restart."""

    def __init__(self, unfired_from: int = MIN_TIMESTAMP) -> None:
        self._unfired_from = unfired_from

    @staticmethod
    def restored(waiting: Collection[int], ended: Collection[int], slide: int) -> Succession:
        """That of a snapshot with these windows: keys with contents in one that had not fired waited for it."""
        if waiting:
            return Succession(min(waiting))
        return Succession(max(ended) + slide) if ended else Succession()

    def goes_on(self, window: int) -> bool:
        """Whether keys of this window, which fires, wait for the next one."""
        return window >= self._unfired_from

    def first_of(self, windows: Sequence[int]) -> Sequence[int]:
        """Of some windows, the latest first, those that a new key has to be noted for: it comes to the others later."""
        if not windows or windows[-1] >= self._unfired_from:
            return windows[-1:]
        unfired = [window for window in windows if window >= self._unfired_from]
        return [*unfired[-1:], *windows[len(unfired) :]]


def with_contents(
    keys: Iterable[Any], readers: Sequence[Callable[[Any], Any]], found: Layer, go_on: Callable[[], bool]
) -> Iterator[None]:
    """Add to `found` the keys for which a reader finds something, in steps."""
    rest = iter(keys)
    while missing := list(islice(rest, _KEYS_UNTIMED)):
        for reader in readers:
            left = []
            for key in missing:
                if reader(key) is None:
                    left.append(key)
                else:
                    found[key] = True
            if not left:
                break
            missing = left
        if not go_on():
            yield
