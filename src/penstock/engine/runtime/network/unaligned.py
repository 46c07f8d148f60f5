"""Unaligned checkpoints: a barrier overtakes the records on channels that have not delivered it.

As the table of `alignment.py`, and in a state "aligning n", unless n is a savepoint:

    event                          next   effects
    at once, or its time is over   idle   overtaken: n, and the channels without n; snapshot n, last = n, replay

The owner logs what overtaken channels deliver until their barrier n comes: it belongs to the snapshot
(`task/snapshot_logs.py`). Nothing is set aside any more, so other checkpoints may begin meanwhile.
Source: Flink docs, "Stateful Stream Processing", unaligned checkpointing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from penstock.engine.runtime.network.alignment import AlignmentOutput, ExactlyOnceAlignment
from penstock.engine.runtime.network.elements import CheckpointBarrier
from penstock.engine.runtime.network.set_aside import SetAside


class UnalignedAlignment(ExactlyOnceAlignment):
    """`overtaken` is called before `snapshot`; `arrived` with each barrier of each channel, and its number.

    `at_once`: with the first barrier. Else the task says when, by `overtake`.
    """

    def __init__(
        self,
        channels: Iterable[Hashable],
        output: AlignmentOutput,
        aside: SetAside | None = None,
        *,
        overtaken: Callable[[int, set[Any]], None],
        arrived: Callable[[Any, int], None],
        at_once: bool,
    ) -> None:
        super().__init__(channels, output, aside)
        self._overtaken = overtaken
        self._has_arrived = arrived
        self._at_once = at_once

    @property
    def may_overtake(self) -> bool:
        """Whether an alignment is under way that need not be waited for. A savepoint is always aligned."""
        return self.current is not None and not self.current.options.is_aligned

    def overtake(self) -> None:
        """The present barrier overtakes what has not come yet."""
        barrier = self.current
        assert barrier is not None
        self._overtaken(barrier.checkpoint_id, self._live - self._arrived)
        self._snapshot(barrier)
        self._end_alignment(barrier.checkpoint_id)

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        self._has_arrived(channel, barrier.checkpoint_id)
        super()._barrier(channel, barrier)
        if self._at_once and self.may_overtake:
            self.overtake()
