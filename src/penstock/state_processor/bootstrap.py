"""Bootstrapping: a batch job whose last operator writes its state to a savepoint and emits the files' metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.configuration import options
from penstock.common.errors import ProgramError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.datastream.data_stream import DataStream
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.keyed_stream import KeyedStream
from penstock.engine.checkpoint.manifest import OperatorPart, SubtaskPart
from penstock.engine.checkpoint.storage import SavepointStorage
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.engine.runtime.task.restore import KeyedChain
from penstock.engine.runtime.task.snapshot import OperatorSnapshot
from penstock.engine.state.key_groups import KeyGroups
from penstock.state_processor.bootstrap_functions import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from penstock.state_processor.new_tables import finished

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST = 1


def _write_state(operator: Operator, directory: str, prefix: str) -> bool:
    """At the end of the input, write all state and emit its metadata."""
    context = operator.context
    for function in context.functions:
        function.snapshot_state(context, _FIRST, context.now_ms())
    snapshot = OperatorSnapshot(context.uid, operator, KeyedChain(), options=CheckpointOptions(savepoint=directory))
    info = context.info
    written = finished(
        snapshot.write_savepoint(
            f"{prefix}-{info.subtask}", SavepointStorage(directory), KeyGroups(info.max_parallelism)
        )
    )
    snapshot.release()
    return operator.output.emit(Rows([msgspec.json.encode(SubtaskPart(info.subtask, written))]))


class KeyedBootstrapOperator(KeyedProcessOperator):
    """Runs a KeyedStateBootstrapFunction. Timers do not fire, and state is kept until it is written."""

    def __init__(self, key_selector: Callable[[Any], Any], function: UserFunction, directory: str, prefix: str) -> None:
        super().__init__("Bootstrap", key_selector, function)
        self._directory = directory
        self._prefix = prefix

    # Timers are part of the savepoint and fire in the job restored from it: neither a watermark nor processing time
    # fires one here, and the end of a key discards no state.
    def watermark(self, timestamp: int) -> bool:
        return self.output.watermark(timestamp)

    def wake_at_ms(self) -> int | None:
        return None

    def processing_time(self, now_ms: int) -> bool:
        return True

    def end_key(self) -> bool:
        return True

    def finish(self) -> bool:
        return _write_state(self, self._directory, self._prefix)


class BootstrapOperator(ProcessOperator):
    """Runs a StateBootstrapFunction."""

    def __init__(self, function: UserFunction, directory: str, prefix: str) -> None:
        super().__init__("Bootstrap", function)
        self._directory = directory
        self._prefix = prefix

    def finish(self) -> bool:
        return _write_state(self, self._directory, self._prefix)


class Bootstrap:
    """A stream and the function that converts its records to state. `run` executes the job."""

    def __init__(self, stream: DataStream[Any], function: Any) -> None:
        if isinstance(function, KeyedStateBootstrapFunction):
            if not isinstance(stream, KeyedStream):
                raise ProgramError(f"a {type(function).__name__} needs a keyed stream: call key_by first")
        elif not isinstance(function, StateBootstrapFunction):
            raise TypeError(
                "expected a KeyedStateBootstrapFunction, StateBootstrapFunction or BroadcastStateBootstrapFunction "
                f"(an instance), got {function!r}"
            )
        elif not isinstance(stream, DataStream):
            raise TypeError(f"bootstrapping needs a DataStream, got {stream!r}")
        self._stream = stream
        self._function = function

    def run(self, uid: str, max_parallelism: int, directory: str, prefix: str) -> OperatorPart:
        """Run the job in BATCH mode; files are written to `directory`, with names that begin with `prefix`.

        Raises ProgramError if a source is unbounded or the function emits records, JobError if the job fails.
        """
        stream = self._stream
        user_function = UserFunction(self._function, "process_element")
        if isinstance(stream, KeyedStream):
            operator = KeyedBootstrapOperator(stream.key_selector, user_function, directory, prefix)
            written = stream._keyed_operator(f"Bootstrap {uid}", operator, None)
        else:
            written = stream._operator(f"Bootstrap {uid}", BootstrapOperator(user_function, directory, prefix), None)
        written.set_max_parallelism(max_parallelism)
        if isinstance(self._function, BroadcastStateBootstrapFunction):
            written.set_parallelism(1)
        environment = stream.environment
        mode = environment._configuration.get(options.RUNTIME_MODE)
        environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
        try:
            with written.execute_and_collect(f"bootstrap {uid}") as collected:
                records = list(collected)
        finally:
            environment.set_runtime_mode(mode)
        try:
            subtasks = [from_json(record, SubtaskPart) for record in records]
        except (TypeError, *DECODING_ERRORS) as error:
            raise ProgramError(f"a {type(self._function).__name__} fills state and emits nothing") from error
        subtasks.sort(key=lambda part: part.subtask)
        return OperatorPart(
            state_id=uid,
            name=f"Bootstrap {uid}",
            parallelism=len(subtasks),
            max_parallelism=max_parallelism,
            subtasks=subtasks,
        )
