"""Writers of a RedisSink: in batches, and by the log of transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.api.sink import SinkContext, SinkWriter
from penstock.connectors.base.batch_writer import BatchWriter
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.base.retries import retried
from penstock.connectors.redis.server import RedisConnection, RedisError, RedisServer
from penstock.connectors.redis.sink.commands import Command, Commands, shown
from penstock.connectors.redis.sink.transaction_log import (
    LogNames,
    RedisTransaction,
    TransactionsOfWriter,
    are_applied,
    begin,
    drop,
    drop_earlier_attempts,
    packed,
)

T = TypeVar("T")


class CommandWriter(BatchWriter):
    """Send commands in batches, each in a pipeline (AT_LEAST_ONCE). A checkpoint waits for those before it.

    If the connection is lost, a batch is sent again.
    """

    def __init__(self, server: RedisServer, commands: Commands, execution: Execution, context: SinkContext) -> None:
        super().__init__(execution, context)
        self._server = server
        self._commands = commands
        self._connection = RedisConnection(server)

    def encode(self, values: list[Any]) -> list[Any]:
        return self._commands.of_all(values)

    def send(self, batch: list[Command]) -> None:
        for command, answer in zip(batch, self._connection.pipelined(batch), strict=True):
            if isinstance(answer, Exception):
                raise self._server.failed(answer, f"refused the command {shown(command)}")

    def close(self) -> None:
        self._connection.close()


class LogWriter(SinkWriter[Any]):
    """Write commands to a log in Redis (EXACTLY_ONCE). The driver applies prepared ones."""

    def __init__(
        self,
        server: RedisServer,
        commands: Commands,
        execution: Execution,
        context: SinkContext,
        restored: Sequence[TransactionsOfWriter],
    ) -> None:
        self._commands = commands
        self._execution = execution
        self._subtask = context.subtask
        self._parallelism = context.parallelism
        self._names = LogNames.of(context)
        self._connection = RedisConnection(server)
        self._waiting: list[Command] = []
        self._prepared = [one for state in restored for one in state.prepared]
        """Transactions of earlier attempts and this one that may not be committed yet, in the order of preparation."""
        former = FormerSubtasks.of(context, [(state.subtask, state.parallelism) for state in restored])
        self._start = self._next = self._call(lambda client: begin(client, self._names))
        """Numbers of the first chunk since the last checkpoint, and of the next chunk."""
        if former.owners:
            self._call(lambda client: drop_earlier_attempts(client, self._names, former, self._prepared))

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._waiting += self._commands.of_all(values)
        while len(self._waiting) >= self._execution.batch_size:
            self._write_chunk()

    def prepare_commit(self) -> list[RedisTransaction]:
        while self._waiting:
            self._write_chunk()
        if self._start == self._next:
            return []
        transaction = RedisTransaction(self._names.log, self._start, self._next)
        self._start = self._next
        are_committed = self._call(lambda client: are_applied(client, self._prepared)) if self._prepared else []
        self._prepared = [
            one for one, is_committed in zip(self._prepared, are_committed, strict=True) if not is_committed
        ]
        self._prepared.append(transaction)
        return [transaction]

    def snapshot_state(self, checkpoint_id: int) -> list[TransactionsOfWriter]:
        return [TransactionsOfWriter(self._subtask, self._parallelism, list(self._prepared))]

    def close(self) -> None:
        # If the server is unavailable, the next attempt deletes them.
        with contextlib.suppress(RedisError):
            self._connection.call(lambda client: drop(client, self._names.log, range(self._start, self._next)))
        self._connection.close()

    def _write_chunk(self) -> None:
        size = self._execution.batch_size
        chunk, self._waiting = packed(self._waiting[:size]), self._waiting[size:]
        # Idempotent: a repeated write has the same number and content.
        self._call(lambda client: client.hset(self._names.log, self._next, chunk))
        self._next += 1

    def _call(self, call: Callable[[Any], T]) -> T:
        return retried(lambda: self._connection.call(call), self._execution.max_retries)
