"""The sink of a chain: passes chunks to its writer, and the writer's committables to the committer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from penstock.api.sink import Sink, SinkWriter
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import DamagedCheckpointError
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.result_kinds import check_method_kinds
from penstock.common.functions.user_calls import RAISED
from penstock.common.time import returned_time_ms
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext


_log = logging.getLogger(__name__)
_METHODS_THAT_CHECK_VALUES = ("write", "flush", "prepare_commit")
"""Methods in which a writer may reject a value. Its message explains the error, so our frames are left out."""

WRITER = "(sink) writer"
"""Name of the operator state that holds a writer's state."""


class SinkOperator(Operator):
    """Writes to a Sink. Committables leave the subtask as results, under `sink_id`."""

    keeps_values = True
    is_sink = True

    sink: Sink[Any]
    sink_id: int
    writer: SinkWriter[Any] | None = None

    def __init__(self, name: str, sink: Sink[Any], sink_id: int) -> None:
        super().__init__(name)
        self._committables: list[Any] = []
        self._finished = False
        self._checkpoint_id = 0
        self._restored: list[Any] = []
        self._is_restored = False
        self.sink = sink
        self.sink_id = sink_id

    def open(self) -> None:
        context = SubtaskSinkContext(self.context, self._is_restored)
        if self._restored:
            with self._errors_named("restore_writer"):
                self.writer = self.sink.restore_writer(context, self._restored)
                check_method_kinds(self.writer, SinkWriter)
            self._restored = []
            return
        with self._errors_named("create_writer"):
            self.writer = self.sink.create_writer(context)
            check_method_kinds(self.writer, SinkWriter)

    def process(self, chunk: Rows) -> bool:
        assert self.writer is not None
        with self._errors_named("write"):
            self.writer.write_chunk(chunk.values, chunk.timestamps)
        return self.context.budget.may_continue()

    def watermark(self, timestamp: int) -> bool:
        self.context.counters.watermark = timestamp
        return True

    def wake_at_ms(self) -> int | None:
        if self.writer is None:
            return None
        with self._errors_named("wake_at_ms"):
            return returned_time_ms(self.writer.wake_at_ms(), f"{type(self.writer).__name__}.wake_at_ms")

    def processing_time(self, now_ms: int) -> bool:
        assert self.writer is not None
        with self._errors_named("on_wake"):
            self.writer.on_wake(now_ms)
        return True

    def finish(self) -> bool:
        assert self.writer is not None
        with self._errors_named("flush"):
            self.writer.flush(end_of_input=True)
            # Committed with the next checkpoint or savepoint, which also restores the end of data.
            self._committables = self.writer.prepare_commit()
        self._finished = True
        return True

    def return_committables(self, committables: list[Any]) -> None:
        self._committables = [*committables, *self._committables]

    def job_ended(self) -> None:
        committables, self._committables = self._committables, []
        if committables:
            # No checkpoint followed: a job without a checkpoint interval commits when all of it has ended.
            self.context.deliver(self.sink_id, "committable", committables)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        assert self.writer is not None
        self._checkpoint_id = checkpoint_id
        committables, self._committables = self._committables, []
        if not self._finished:
            if savepoint:
                with self._errors_named("prepare_savepoint"):
                    self.writer.prepare_savepoint()
            with self._errors_named("prepare_commit"):
                self.writer.flush(end_of_input=False)
                committables = self.writer.prepare_commit()
        return committables

    def lists(self) -> list[NamedList]:
        assert self.writer is not None
        with self._errors_named("snapshot_state"):
            items = self.writer.snapshot_state(self._checkpoint_id)
        return [NamedList(WRITER, Redistribution.SPLIT, items)] if items else []

    def restore_lists(self, lists: list[NamedList]) -> None:
        self._is_restored = True
        self._restored = [item for one in lists if one.name == WRITER for item in one.items]

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        assert self.writer is not None
        with self._errors_named("notify_checkpoint_complete"):
            self.writer.notify_checkpoint_complete(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        assert self.writer is not None
        with self._errors_named("notify_checkpoint_aborted"):
            self.writer.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        if self.writer is None:
            return
        try:
            self._abort_prepared()
        finally:
            with self._errors_named("close"):
                self.writer.close()

    def _abort_prepared(self) -> None:
        # The task was canceled or has failed. The writer has prepared these, but the driver does not know them.
        committables, self._committables = self._committables, []
        committer = self.sink.create_committer() if committables else None
        if committer is not None:
            with self._errors_named("abort"):
                committer.abort(committables)

    @contextlib.contextmanager
    def _errors_named(self, method: str) -> Iterator[None]:
        """Let errors of the sink name the operator and the method."""
        try:
            yield
        except DamagedCheckpointError as error:
            # The damaged data is part of the checkpoint: restoring it again would not help.
            info = self.context.info
            raise DamagedCheckpointError(
                f"operator '{self.name}', subtask {info.subtask + 1} of {info.parallelism}: {error}"
            ) from error
        except RAISED as error:
            if method in _METHODS_THAT_CHECK_VALUES and isinstance(error, (TypeError, ValueError)):
                _log.debug("a value could not be written", exc_info=error)
                without_our_frames(error)
            raise self.context.user_error(error, f"{type(self.sink).__name__}.{method}") from error


class CollectOperator(Operator):
    """Sends its records to the driver, for `print` and `execute_and_collect`."""

    keeps_values = True
    is_sink = True
    sink_id: int

    def __init__(self, name: str, sink_id: int) -> None:
        super().__init__(name)
        self.sink_id = sink_id

    def process(self, chunk: Rows) -> bool:
        self.context.deliver(self.sink_id, "result", chunk.values)
        return self.context.budget.may_continue()

    def watermark(self, timestamp: int) -> bool:
        self.context.counters.watermark = timestamp
        return True


class CacheOperator(CollectOperator):
    """Sends its records with their timestamps (ms, or None) to the driver, for `cache`."""

    def process(self, chunk: Rows) -> bool:
        times: Iterable[int | None] = repeat(None, len(chunk))
        if chunk.timestamps is not None:
            # No source may emit the end of time, which timers and windows there stamp their records with.
            times = (min(timestamp, MAX_TIMESTAMP - 1) for timestamp in chunk.timestamps)
        return super().process(Rows(list(zip(chunk.values, times, strict=True))))


class SubtaskSinkContext:
    """Implements SinkContext for a subtask."""

    def __init__(self, context: OperatorContext, is_restored: bool) -> None:
        self._context = context
        self.is_restored = is_restored

    @property
    def subtask(self) -> int:
        return self._context.info.subtask

    @property
    def parallelism(self) -> int:
        return self._context.info.parallelism

    @property
    def attempt(self) -> str:
        info = self._context.info
        return f"{info.job_id[:12]}-{info.epoch}-{info.attempt}-{info.run}"

    @property
    def job_id(self) -> str:
        return self._context.info.job_id

    @property
    def operator_id(self) -> str:
        return self._context.state_id

    @property
    def checkpointing(self) -> bool:
        return self._context.info.checkpointing

    def now_ms(self) -> int:
        return self._context.now_ms()

    def current_watermark(self) -> int:
        return self._context.counters.watermark
