"""RedisSink and its builder."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import ConfigurationError
from penstock.common.functions.result_kinds import check_result_kind
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.redis.server import RedisServer, checked_url, redis
from penstock.connectors.redis.sink.commands import Commands, HashUpsert, StreamAppend, UserCommands
from penstock.connectors.redis.sink.committer import RedisCommitter
from penstock.connectors.redis.sink.transaction_log import TransactionsOfWriter
from penstock.connectors.redis.sink.writers import CommandWriter, LogWriter

_log = logging.getLogger(__name__)

_BATCH = 1000


class RedisSink(Sink[Any]):
    """Sends commands to Redis. Made by `RedisSink.builder()`.

    AT_LEAST_ONCE: in batches; after a failure some commands are sent again, which changes nothing if they set what they
    have set before. EXACTLY_ONCE: commands wait in a log in Redis, and are applied when their checkpoint is complete;
    without checkpoints, when the job has succeeded.
    """

    def __init__(
        self,
        server: RedisServer,
        commands: Commands,
        execution: Execution,
        guarantee: DeliveryGuarantee,
        description: str,
    ) -> None:
        self._server = server
        self._commands = commands
        self._execution = execution
        self._guarantee = guarantee
        self._description = description

    @staticmethod
    def builder() -> RedisSinkBuilder:
        """Start to build one."""
        return RedisSinkBuilder()

    def describe(self) -> str:
        return f"{self._guarantee.value}, {self._server}: {self._description}"

    def validate(self) -> None:
        """Raises RedisError if the server is away, ConfigurationError without redis-py.

        And where the server may throw away what EXACTLY_ONCE has to keep.
        """
        with self._server.session() as client:
            if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
                # A user who may not ask for the server's settings may use it all the same.
                with contextlib.suppress(redis().exceptions.NoPermissionError):
                    self._check_that_it_keeps(client)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return self.restore_writer(context, [])

    def restore_writer(self, context: SinkContext, state: list[TransactionsOfWriter]) -> SinkWriter[Any]:
        """Create a writer; with EXACTLY_ONCE it drops what former attempts have left in their logs."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return CommandWriter(self._server, self._commands, self._execution, context)
        return LogWriter(self._server, self._commands, self._execution, context, state)

    def create_committer(self) -> Committer | None:
        """A committer of what is in the logs, with EXACTLY_ONCE."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return RedisCommitter(self._server, self._execution.max_retries)

    def _check_that_it_keeps(self, client: Any) -> None:
        memory = client.info("memory")
        policy = memory.get("maxmemory_policy", "")
        if memory.get("maxmemory") and policy.startswith("allkeys"):
            raise ConfigurationError(
                f"EXACTLY_ONCE keeps commands in Redis until their checkpoint is complete, and Redis at {self._server} "
                f"may evict them: set its maxmemory-policy to noeviction or volatile-ttl, it is {policy}. Or use "
                "AT_LEAST_ONCE with commands that may be repeated, such as HSET"
            )
        if not client.info("persistence").get("aof_enabled"):
            _log.warning(
                "Redis at %s has no append-only file (appendonly): what is committed, and what waits for its "
                "commit, is lost when the server ends without a snapshot",
                self._server,
            )


class RedisSinkBuilder:
    """Settings of a RedisSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._fields: tuple[str, ...] = ()
        self._command: Callable[[Any], Any] | None = None
        self._hash_key: Callable[[Any], str] | None = None
        self._stream: str | Callable[[Any], str] | None = None
        self._max_length: int | None = None
        self._execution = Execution(batch_size=_BATCH)
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def set_url(self, url: str) -> RedisSinkBuilder:
        """Set the server: `redis://host:6379/0`, by TLS `rediss://…`; redis-py's settings after a `?`."""
        self._url = checked_url(url)
        return self

    def set_user_name(self, user_name: str) -> RedisSinkBuilder:
        """Set who connects. Default: who is in the url, else the user `default`."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> RedisSinkBuilder:
        """Set the password. Default: that of the url, else none."""
        self._password = password
        return self

    def set_command(self, command: Callable[[Any], Any]) -> RedisSinkBuilder:
        """Send what a function makes of a record: a tuple such as `("SET", key, value)`, a list of them, or None."""
        if not callable(command):
            raise TypeError(f"set_command takes a function of a record, got {command!r}")
        check_result_kind(command, "the command function")
        self._command = command
        return self

    def set_hash(self, key_selector: Callable[[Any], str], *fields: str) -> RedisSinkBuilder:
        """Set these fields of the record in the hash whose key the function makes of it; a None deletes its field."""
        if not fields:
            raise ValueError(
                "set_hash takes a function that makes a key of a record, and then names of fields: got no name"
            )
        self._hash_key, self._fields = key_selector, fields
        return self

    def set_stream(
        self, stream: str | Callable[[Any], str], *fields: str, max_length: int | None = None
    ) -> RedisSinkBuilder:
        """Append an entry with these fields of the record to a stream, or to the one that a function names.

        `max_length`: the server trims the stream to about so many entries.
        """
        if not fields:
            raise ValueError("set_stream takes a stream, and then names of fields: got no name")
        self._stream, self._fields = stream, fields
        self._max_length = None if max_length is None else checked_at_least("max_length", max_length, 1)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> RedisSinkBuilder:
        """Set AT_LEAST_ONCE, which is the default, or EXACTLY_ONCE."""
        if delivery_guarantee not in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
            raise ValueError(f"a RedisSink is AT_LEAST_ONCE or EXACTLY_ONCE, got {delivery_guarantee!r}")
        self._guarantee = delivery_guarantee
        return self

    def set_batch_size(self, batch_size: int) -> RedisSinkBuilder:
        """Set how many commands are sent at once. Default: 1000. With EXACTLY_ONCE, Redis applies so many at once."""
        self._execution = self._execution.with_batch_size(batch_size)
        return self

    def set_batch_interval_ms(self, batch_interval_ms: int) -> RedisSinkBuilder:
        """Set how long a record waits for others, for AT_LEAST_ONCE. Default: 0, until a batch is full."""
        self._execution = self._execution.with_batch_interval_ms(batch_interval_ms)
        return self

    def set_max_retries(self, max_retries: int) -> RedisSinkBuilder:
        """Set how often a batch, or a commit, is tried again when the server was away. Default: 3."""
        self._execution = self._execution.with_max_retries(max_retries)
        return self

    def build(self) -> RedisSink:
        """Create the sink. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a RedisSink needs a server: set_url('redis://host:6379/0')")
        commands: list[tuple[str, Commands]] = []
        if self._command is not None:
            name = getattr(self._command, "__name__", type(self._command).__name__)
            commands.append((f"commands by {name}", UserCommands(self._command)))
        if self._hash_key is not None:
            commands.append((f"hashes with {', '.join(self._fields)}", HashUpsert(self._hash_key, self._fields)))
        if self._stream is not None:
            stream = f"the stream {self._stream}" if isinstance(self._stream, str) else "streams"
            added = StreamAppend(self._stream, self._fields, self._max_length)
            commands.append((f"{stream} with {', '.join(self._fields)}", added))
        if len(commands) != 1:
            raise ValueError("a RedisSink needs one of set_command, set_hash and set_stream")
        ((description, made),) = commands
        server = RedisServer(self._url, self._user_name, self._password)
        return RedisSink(server, made, self._execution, self._guarantee, description)
