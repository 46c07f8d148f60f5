"""The client library redis-py, and connections to a server, whose password is never shown."""

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
"""The longest wait for an answer: after it the server counts as unavailable."""
_NO_CLUSTER_SUPPORT = (
    "This is a server of a Redis Cluster, which the connector does not support: all keys must be on one server"
)
_FULL = "The server has reached its maxmemory: increase it, or delete keys"
_ADVICE = {
    "AuthenticationError": "Check user and password: the arguments user_name and password, or redis://user:password@host",
    "NoPermissionError": "Grant it to the user with ACL SETUSER",
    "OutOfMemoryError": _FULL,
    "OOM": _FULL,
    "AskError": _NO_CLUSTER_SUPPORT,
    "MovedError": _NO_CLUSTER_SUPPORT,
    "ClusterCrossSlotError": _NO_CLUSTER_SUPPORT,
    "WRONGTYPE": "Another program created this key with another type: `TYPE <key>` shows it. Delete or rename it, "
    "or use another key",
}
"""By redis-py's class of the error, or by the first word of the answer: what to do."""
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
    """Redis could not be reached, or refused a command."""


class TransientRedisError(RedisError, TransientError):
    """An error after which another try may succeed: a lost connection, a server that starts or stops."""


def redis() -> ModuleType:
    """Return the package. Raise ConfigurationError if it is not installed."""
    return package_of(REDIS, "the Redis connector needs redis-py", "redis", "redis.backoff")


class RedisServer(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A database of a server, and the user who connects. Its text has the address without the password.

    `url`: `redis://host:port/database`, with TLS `rediss://…`, or `unix:///path?db=0`.
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
        """Return a client (`redis.Redis`) that is connected. Raise RedisError."""
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
        """Provide a client for a block. Errors of redis-py in the block become RedisErrors."""
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
        """Return the error for a refusal that a script returned. It starts with a word for its kind."""
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
        """Return the text without the password."""
        password = self._settings().get("password")
        return text.replace(password, _HIDDEN) if password else text

    def _settings(self) -> dict[str, Any]:
        try:
            known: dict[str, Any] = redis().connection.parse_url(self.url)
            if "@" in self.url and not {"username", "password"} & known.keys():
                raise ValueError("the password contains / or #, which end the host")
        except ValueError:
            # The message of the error contains parts of the url, possibly of the password.
            raise ConfigurationError(
                "cannot read the url of Redis: expected one like redis://host:6379/0, with special characters in "
                "user and password as %XX. It is not shown, because it may contain a password"
            ) from None
        known = {"socket_connect_timeout": _CONNECT_S, "socket_timeout": _ANSWER_S, **known}
        if self.user_name is not None:
            known["username"] = self.user_name
        if self.password is not None:
            known["password"] = self.password
        # The protocol determines the types of answers, and with "decode_responses" keys would have to be text.
        return {**known, "protocol": 2, "decode_responses": False}


def checked_url(url: Any) -> str:
    """Raise TypeError or ValueError if this is not an address of Redis, without showing it."""
    if not isinstance(url, str):
        raise TypeError(f"the url of Redis must be a str, got a {type(url).__name__}")
    if not url.startswith(_SCHEMES):
        scheme = url.partition("://")[0] if "://" in url else ""
        got = f"one with {scheme}://" if scheme else "one without a scheme"
        raise ValueError(f"the url of Redis must begin with redis://, rediss:// (TLS) or unix://, got {got}")
    return url


T = TypeVar("T")


class RedisConnection:
    """A client of redis-py for one thread at a time. It connects when needed, and again after a lost connection."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client: Any = None

    def call(self, call: Callable[[Any], T]) -> T:
        """Return the result of a call that takes a client. Raise RedisError instead of redis-py's errors."""
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
        """Return the answers to commands that are sent together, in order.

        The answer to a refused one is an exception.
        """

        def send(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = pipeline.execute(raise_on_error=False)
            return answers

        return self.call(send)

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
