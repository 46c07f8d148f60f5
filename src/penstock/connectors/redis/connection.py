"""A connection that is made when it is needed, and made again after it was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from penstock.connectors.base.retries import TransientError
from penstock.connectors.redis.server import RedisServer, redis

T = TypeVar("T")


class RedisConnection:
    """A client of redis-py for one thread at a time."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client: Any = None

    def call(self, call: Callable[[Any], T]) -> T:
        """What the call returns, which is given a client. Raises RedisError in the place of redis-py's errors."""
        if self._client is None:
            self._client = self._server.connect()
        try:
            return call(self._client)
        except redis().RedisError as error:
            failed = self._server.failed(error)
            if isinstance(failed, TransientError):
                self.close()
            raise failed from None

    def pipelined(self, commands: Iterable[Sequence[Any]]) -> list[Any]:
        """The answers to commands that are sent together, in order; one that is refused has an exception for it."""

        def send(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = pipeline.execute(raise_on_error=False)
            return answers

        return self.call(send)

    def close(self) -> None:
        """Leave the server."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
