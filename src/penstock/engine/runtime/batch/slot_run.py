"""An attempt of a slot in batched mode, from the opening of its tasks to their end. All hosts use it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.task.events import AssignSplits, Cancel, Close, InputEnded, NoMoreSplits, Opaque
from penstock.engine.runtime.task.slot import Slot

T = TypeVar("T")


def run_to_end(
    slot: Slot, buffers: Iterable[bytes], until_idle: Callable[[], Iterator[T]], wait: Callable[[], None]
) -> Iterator[T]:
    """Open the tasks, process their sorted input, and close them. Yields what `until_idle` yields.

    `until_idle` lets the slot do steps until it has no more work now, and carries out its effects. `wait` waits until
    the slot has work, which may take long: the rate of a source may be limited. Raises the errors of the slot. The
    tasks are closed also after an error, and when this iterator is closed.
    """
    try:
        slot.open()
        sources = [task for task in slot.tasks.values() if task.chain.head.source is not None]
        for task in sources:
            # All splits in one event: a repeated attempt must read the same.
            task.handle(AssignSplits(Opaque(slot.level.splits[task.id.vertex][slot.index])))
            task.handle(NoMoreSplits())
        for buffer in buffers:
            slot.receive(buffer)
            yield from until_idle()
        for task in slot.tasks.values():
            if task not in sources:
                task.handle(InputEnded())
        while not slot.data_ended:
            yield from until_idle()
            if not slot.data_ended:
                wait()
        slot.handle_all(Close())
    except BaseException:
        with contextlib.suppress(*RAISED):
            slot.handle_all(Cancel())
        raise
