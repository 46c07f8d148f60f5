"""Applies on the driver what was prepared, whichever process has prepared it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.sink import Committer
from penstock.connectors.base.retries import TransientError, retried
from penstock.connectors.redis.server import RedisError, RedisServer
from penstock.connectors.redis.sink.commands import shown
from penstock.connectors.redis.sink.transaction_log import RedisTransaction, apply, drop


class TransactionLostError(RedisError):
    """Commands that a checkpoint names are there no more, though they were not applied."""


class RedisCommitter(Committer):
    """Applies logs by name: repeating that changes nothing. A connection is for one call: jobs may run for months."""

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
                    f"Redis at {self._server} has lost commands that a checkpoint names: the key '{one.log}' has no "
                    f"chunk {chunk}, and it was not applied. It was deleted, or the server has come back without its "
                    "last writes (appendonly, appendfsync); or the job has failed behind this savepoint, and has gone "
                    "back to a checkpoint before it. Start again from an earlier savepoint, or accept the loss and "
                    "start from a later one"
                )
            if outcome.refused is not None:
                error = self._server.refused(outcome.refused, f"refused the command {shown(outcome.command)}")
                if isinstance(error, TransientError):
                    raise error
                raise RedisError(
                    f"{error}\nThe command and those behind it wait in the key '{one.log}'. When the reason is mended, "
                    "the restarted job goes on with this command"
                )
