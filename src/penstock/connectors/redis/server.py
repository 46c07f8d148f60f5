"""How Redis is reached: the client library, redis-py, and a server, whose password is not shown."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from penstock.common.doors.extras import REDIS, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.base.retries import TransientError

_SCHEMES = ("redis://", "rediss://", "unix://")
_HIDDEN = "***"
_CONNECT_S = 10.0
_ANSWER_S = 30.0
"""How long an answer is waited for: a server that does not answer is away."""
_OF_A_CLUSTER = (
    "This is a server of a Redis Cluster, which the connector does not speak to: all keys must be on one server"
)
_FULL = "The server has come to its maxmemory: raise it, or delete something"
_ADVICE = {
    "AuthenticationError": "Check user and password: the arguments user_name and password, or redis://user:password@host",
    "NoPermissionError": "Allow it to the user by ACL SETUSER",
    "OutOfMemoryError": _FULL,
    "OOM": _FULL,
    "AskError": _OF_A_CLUSTER,
    "MovedError": _OF_A_CLUSTER,
    "ClusterCrossSlotError": _OF_A_CLUSTER,
    "WRONGTYPE": "Another program has made this key with another type: `TYPE <key>` says which. Delete or rename it, "
    "or take another key",
}
"""redis-py's error, or how the answer begins -> what to do."""
_TRANSIENT = (
    "BusyLoadingError",
    "ClusterDownError",
    "MasterDownError",
    "ReadOnlyError",
    "TryAgainError",
    "BUSY",
    "READONLY",
    "NOREPLICAS",
    "UNBLOCKED",
)
"""Errors of a server that starts, of a replica that becomes the primary, or of a server that runs a script."""


class RedisError(JobError):
    """Redis could not be reached, or has refused a command."""


class TransientRedisError(RedisError, TransientError):
    """Another try may succeed: a connection that was lost, a server that starts or stops."""


def redis() -> ModuleType:
    """The package. Raises ConfigurationError if it is not installed."""
    return package_of(REDIS, "the Redis connector needs redis-py", "redis", "redis.backoff")


class RedisServer(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A database of a server, and who connects to it. Its text says where it is, and nothing of the user's password.

    `url`: `redis://host:port/database`, by TLS `rediss://…`, or `unix:///path?db=0`.
    """

    url: str
    user_name: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"RedisServer({self})"

    def __str__(self) -> str:
        known = self._settings()
        if "path" in known:
            return f"{known['path']}, database {known.get('db', 0)}"
        return f"{known.get('host', 'localhost')}:{known.get('port', 6379)}/{known.get('db', 0)}"

    def connect(self) -> Any:
        """A client (`redis.Redis`) with a connection, which is made already. Raises RedisError."""
        package = redis()
        retry = package.retry.Retry(package.backoff.NoBackoff(), 0)
        client = package.Redis.from_pool(package.ConnectionPool(**self._settings(), retry=retry))
        try:
            client.ping()
        except package.RedisError as error:
            client.close()
            raise self.failed(error) from None
        return client

    @contextlib.contextmanager
    def session(self, what: str = "") -> Iterator[Any]:
        """A client for as long as a block runs; what redis-py raises there becomes a RedisError."""
        client = self.connect()
        try:
            yield client
        except redis().RedisError as error:
            raise self.failed(error, what) from None
        finally:
            client.close()

    def failed(self, error: Any, what: str = "") -> RedisError:
        """Return the error that replaces an error of redis-py. `what`: the command or key."""
        package = redis()
        lost = isinstance(error, (package.ConnectionError, package.TimeoutError))
        is_lost = lost and not isinstance(error, package.AuthenticationError)
        return self._error(str(error), type(error).__name__, what, is_lost)

    def refused(self, answer: str, what: str) -> RedisError:
        """Return the error for an answer of the server that a script passed on. It starts with a word for its kind."""
        return self._error(answer, answer.split(" ", 1)[0].lstrip("-"), what, False)

    def _error(self, answer: str, kind: str, what: str, is_lost: bool) -> RedisError:
        text = self.hide(answer.strip())
        word = text.split(" ", 1)[0]
        advice = _ADVICE.get(kind) or _ADVICE.get(word)
        message = f"Redis at {self}{what and f', {what}'}: {text}" + (f"\n{advice}" if advice else "")
        if is_lost or kind in _TRANSIENT or word in _TRANSIENT:
            return TransientRedisError(message)
        return RedisError(message)

    def hide(self, text: str) -> str:
        """The text without the password, should it be in there."""
        password = self._settings().get("password")
        return text.replace(password, _HIDDEN) if password else text

    def _settings(self) -> dict[str, Any]:
        try:
            known: dict[str, Any] = redis().connection.parse_url(self.url)
            if "@" in self.url and not {"username", "password"} & known.keys():
                raise ValueError("a / or # in the password ends the host before it has begun")
        except ValueError:
            # What it says contains parts of the url, and these may be of the password.
            raise ConfigurationError(
                "the url of Redis can't be read: it is like redis://host:6379/0, special characters in user and "
                "password as %XX. It is not shown, since it may hold a password"
            ) from None
        known = {"socket_connect_timeout": _CONNECT_S, "socket_timeout": _ANSWER_S, **known}
        if self.user_name is not None:
            known["username"] = self.user_name
        if self.password is not None:
            known["password"] = self.password
        # The protocol decides which types answers have, and with "decode_responses" keys would have to be text.
        return {**known, "protocol": 2, "decode_responses": False}


def checked_url(url: Any) -> str:
    """Raises TypeError or ValueError if this is no address of Redis; does not show it."""
    if not isinstance(url, str):
        raise TypeError(f"the url of Redis is a str, got a {type(url).__name__}")
    if not url.startswith(_SCHEMES):
        scheme = url.partition("://")[0] if "://" in url else ""
        got = f"one with {scheme}://" if scheme else "one without a scheme"
        raise ValueError(f"the url of Redis begins with redis://, rediss:// (TLS) or unix://, got {got}")
    return url


# A connection that is made when it is needed, and made again after it was lost.

T = TypeVar("T")


class RedisConnection:
    """A client of redis-py for one thread at a time."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client: Any = None

    def call(self, call: Callable[[Any], T]) -> T:
        """Return the result of a call that takes a client. Raise RedisError in the place of redis-py's errors."""
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
