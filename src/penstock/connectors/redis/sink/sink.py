"""A sink to Redis."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee, checked_guarantee
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_at_least, checked_function, checked_names
from penstock.connectors.base.retries import TransientError, retried
from penstock.connectors.redis.server import RedisError, RedisServer, checked_url, redis
from penstock.connectors.redis.sink.commands import Commands, HashUpsert, StreamAppend, UserCommands, shown
from penstock.connectors.redis.sink.transaction_log import RedisTransaction, TransactionsOfWriter, apply, drop
from penstock.connectors.redis.sink.writers import CommandWriter, LogWriter


class TransactionLostError(RedisError):
    """Commands of a checkpoint are missing, although they were not applied."""


class RedisCommitter(Committer):
    """Apply logs by name, on the driver. Idempotent. Each call opens a connection, because jobs may run for months."""

    def __init__(self, server: RedisServer, max_retries: int) -> None:
        self._server = server
        self._max_retries = max_retries

    def commit(self, committables: Sequence[RedisTransaction]) -> None:
        self._for_each(committables, self._apply)

    def abort(self, committables: Sequence[RedisTransaction]) -> None:
        self._for_each(committables, lambda client, one: drop(client, one.log, range(one.start, one.stop)))

    def _for_each(
        self, committables: Sequence[RedisTransaction], call: Callable[[Any, RedisTransaction], None]
    ) -> None:
        def for_each() -> None:
            with self._server.session("commit") as client:
                for one in committables:
                    call(client, one)

        if committables:
            retried(for_each, self._max_retries)

    def _apply(self, client: Any, one: RedisTransaction) -> None:
        for chunk in range(one.start, one.stop):
            outcome = apply(client, one.log, chunk)
            if outcome.is_lost:
                raise TransactionLostError(
                    f"Redis at {self._server} has lost commands of a checkpoint: the key '{one.log}' lacks "
                    f"chunk {chunk}, which was not applied. It was deleted, or the server restarted without its "
                    "last writes (appendonly, appendfsync), or the job failed after this savepoint and was restored "
                    "from a checkpoint before it. Start again from an earlier savepoint, or accept the loss and "
                    "start from a later one"
                )
            if outcome.refused is not None:
                error = self._server.refused(outcome.refused, f"refused the command {shown(outcome.command)}")
                if isinstance(error, TransientError):
                    raise error
                raise RedisError(
                    f"{error}\nThe key '{one.log}' contains this command and those after it. When the cause is "
                    "removed, the restarted job continues with this command"
                )


_log = logging.getLogger(__name__)


class RedisSink(Sink[Any], HasFormerBuilder):
    """Send commands to Redis.

    AT_LEAST_ONCE: in batches; after a failure some commands are sent again, which has no effect if they set the same
    values again. EXACTLY_ONCE: commands are stored in a log in Redis, and applied when their checkpoint is complete;
    without checkpoints, after the job has succeeded.
    """

    def __init__(
        self,
        *,
        url: str,
        command: Callable[[Any], Any] | None = None,
        hash_key: Callable[[Any], str] | None = None,
        stream: str | Callable[[Any], str] | None = None,
        fields: Sequence[str] = (),
        max_length: int | None = None,
        user_name: str | None = None,
        password: str | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        batch_size: int = 1000,
        batch_interval_ms: int = 0,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument, and without one of `command`, `hash_key` and `stream`.

        * `url`: the server, `redis://host:6379/0`, with TLS `rediss://…`; redis-py's settings after a `?`.
        * `command`: send the result of this function of a record: a tuple such as `("SET", key, value)`, a list of
          them, or None.
        * `hash_key`: set `fields` of the record in the hash whose key this function returns for it; a None deletes its
          field.
        * `stream`: append an entry with `fields` of the record to the stream with this key, or to the one whose key
          this function returns for it. `max_length`: the server trims the stream to about this many entries.
        * `user_name`, `password`: the user who connects. Default: from the url, else the user `default`.
        * `delivery_guarantee`: AT_LEAST_ONCE or EXACTLY_ONCE.
        * `batch_size`: commands that are sent together. With EXACTLY_ONCE, Redis applies this many in one step.
        * `batch_interval_ms`: how long a record waits for others, with AT_LEAST_ONCE. 0: until a batch is full.
        * `max_retries`: how often a batch, or a commit, is retried while the server is unavailable.
        """
        self._server = RedisServer(checked_url(url), user_name, password)
        given = {"command": command, "hash_key": hash_key, "stream": stream}
        if len(named := [name for name, value in given.items() if value is not None]) != 1:
            raise ValueError(f"a RedisSink needs one of {', '.join(given)}, got {' and '.join(named) or 'nothing'}")
        if stream is None and max_length is not None:
            raise ValueError(f"max_length is only for a stream, got max_length={max_length} with {named[0]}")
        self._commands: Commands
        if command is not None:
            if fields:
                raise ValueError(f"fields are only for hash_key and stream, got fields={list(fields)} with command")
            self._commands = UserCommands(checked_function("command", command))
            self._description = f"commands by {getattr(command, '__name__', type(command).__name__)}"
        elif hash_key is not None:
            names = checked_names("fields", fields)
            self._commands = HashUpsert(checked_function("hash_key", hash_key), names)
            self._description = f"hashes with {', '.join(names)}"
        elif stream is not None:
            names = checked_names("fields", fields)
            length = None if max_length is None else checked_at_least("max_length", max_length, 1)
            target = stream if isinstance(stream, str) else checked_function("stream", stream)
            self._commands = StreamAppend(target, names, length)
            self._description = f"{_shown_stream(stream)} with {', '.join(names)}"
        self._execution = Execution.checked(batch_size, batch_interval_ms, max_retries)
        self._guarantee = checked_guarantee("RedisSink", delivery_guarantee)

    def describe(self) -> str:
        return f"{self._guarantee.value}, {self._server}: {self._description}"

    def validate(self) -> None:
        """Raise RedisError if the server is unavailable, ConfigurationError without redis-py.

        Raise ConfigurationError also if the server may evict the data of EXACTLY_ONCE.
        """
        with self._server.session() as client:
            if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
                # A user without the right to read the server's settings may still use the sink.
                with contextlib.suppress(redis().exceptions.NoPermissionError):
                    self._check_eviction_and_durability(client)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return self.restore_writer(context, [])

    def restore_writer(self, context: SinkContext, state: list[TransactionsOfWriter]) -> SinkWriter[Any]:
        """Create a writer. With EXACTLY_ONCE it deletes the logs of earlier attempts."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return CommandWriter(self._server, self._commands, self._execution, context)
        return LogWriter(
            server=self._server, commands=self._commands, execution=self._execution, context=context, restored=state
        )

    def create_committer(self) -> Committer | None:
        """Return a committer of the logs with EXACTLY_ONCE, else None."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return RedisCommitter(self._server, self._execution.max_retries)

    def _check_eviction_and_durability(self, client: Any) -> None:
        memory = client.info("memory")
        policy = memory.get("maxmemory_policy", "")
        if memory.get("maxmemory") and policy.startswith("allkeys"):
            raise ConfigurationError(
                "EXACTLY_ONCE stores commands in Redis until their checkpoint is complete, but Redis at "
                f"{self._server} may evict them: its maxmemory-policy must be noeviction or volatile-ttl, got "
                f"{policy}. Or use AT_LEAST_ONCE with commands that may be repeated, such as HSET"
            )
        if not client.info("persistence").get("aof_enabled"):
            _log.warning(
                "Redis at %s has no append-only file (appendonly): committed data, and commands that wait for their "
                "commit, are lost if the server ends without a snapshot",
                self._server,
            )


def _shown_stream(stream: str | Callable[[Any], str]) -> str:
    return f"the stream {stream}" if isinstance(stream, str) else "streams"
