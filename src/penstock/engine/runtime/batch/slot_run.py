"""One run of a slot in batched mode, from the opening of its tasks to their end. All its hosts share it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.events import AssignSplits, Cancel, Close, InputEnded, NoMoreSplits, Opaque
from penstock.engine.runtime.task.slot import Slot

T = TypeVar("T")


def run_to_end(
    slot: Slot, buffers: Iterable[bytes], until_idle: Callable[[], Iterator[T]], wait: Callable[[], None]
) -> Iterator[T]:
    """Open the tasks, process their sorted input, and close them. Gives what `until_idle` gives.

    `until_idle`: lets the slot do steps until it has nothing more to do now, and carries out its effects. `wait`: waits
    until the slot has something to do, which may be a while: a source may be limited in its rate. Raises what the
    slot raises; the tasks are closed then, too, as they are if this iterator is closed.
    """
    try:
        slot.open()
        sources = [task for task in slot.tasks.values() if isinstance(task.chain.head, SourceOperator)]
        for task in sources:
            # All at once: a run that repeats another one must read the same.
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
