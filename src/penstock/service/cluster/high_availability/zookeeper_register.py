"""Election in ZooKeeper: its recipe for leaders, and pointers that change only while the leader's node exists.

    ROOT/CLUSTER/leader/n-…-0000000004    of each process that stands for election; it disappears with the session.
                                          The node with the lowest number leads; it contains the leader's address
                /jobs/ID                  the pointer to the newest state of a job

A pointer is changed in a transaction that checks that the node of this process exists. ZooKeeper removes the node when
the session ends, and until then no other process has the lowest number. So a leader that was suspended for a minute
changes nothing when it resumes. Term: the number of the node, from 1 on.

Source: ZooKeeper Recipes and Solutions, "Leader Election"; Flink's ZooKeeperLeaderElectionDriver,
ZooKeeperStateHandleStore.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from penstock.common.configuration import high_availability_options
from penstock.common.doors.extras import ZOOKEEPER
from penstock.common.errors import ConfigurationError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.service.cluster.high_availability.pointers import NotLeadingError, Pointers
from penstock.service.cluster.high_availability.register import LeaderAddress, Register

Answer = TypeVar("Answer")

_NUMBER = re.compile(r"n-[0-9a-f]+-(\d+)$")
_PAUSE_S = 0.1
_NEGOTIATED = re.compile(r"negotiated session timeout: (\d+)")
_log = logging.getLogger(__name__)
_WHATEVER = -1
"""Any version of a node."""


class _KazooLog(logging.Logger):
    """Silence kazoo's log: it warns of each attempt to connect, which its callers report in their own words.

    Only here does kazoo say how long a session lasts: the servers bound the time that a client requests.
    """

    def __init__(self) -> None:
        super().__init__("penstock.kazoo", logging.CRITICAL)
        self.session_ms: int | None = None

    def log(self, level: int, msg: object, *args: object, **settings: Any) -> None:
        """Extract the session timeout from a message."""
        if "negotiated" in str(msg) and (found := _NEGOTIATED.search(str(msg) % args)):
            self.session_ms = int(found[1])
        super().log(level, msg, *args, **settings)


class ZooKeeperRegister(Register):
    """`quorum`: HOST:PORT of the servers, separated by commas. `root`: the node of the cluster.

    Raises ConfigurationError if no server answers within `connection_ms`, or kazoo is not installed.
    """

    def __init__(self, quorum: str, root: str, session_ms: int, connection_ms: int) -> None:
        self._root = root
        self._own = uuid.uuid4().hex
        """Part of the name of this process's node, which finds the node if the answer to its creation was lost."""
        self._node: str | None = None
        try:
            from kazoo.client import KazooClient
            from kazoo.exceptions import KazooException
        except ImportError:
            raise ConfigurationError(
                f"{high_availability_options.TYPE.key}: zookeeper needs its client: pip install '{ZOOKEEPER}'"
            ) from None
        self._failures = (KazooException, _timeout())
        log = _KazooLog()
        try:
            self._client = KazooClient(hosts=quorum, timeout=session_ms / 1000, logger=log)
            self._client.start(timeout=connection_ms / 1000)
        except (*self._failures, ValueError, OSError) as error:
            raise ConfigurationError(
                f"no ZooKeeper server at {quorum} opened a session within {connection_ms / 1000:g} s ({error}). Is "
                f"{high_availability_options.ZOOKEEPER_QUORUM.key} right, and do more than half of the servers run?"
            ) from error

        # The granted timeout, not the requested one: with a longer lease this process would lead together with its
        # successor.
        self.lease_ms = log.session_ms or session_ms
        if self.lease_ms != session_ms:
            _log.warning(
                "ZooKeeper makes sessions of %s ms, instead of %s: see its minSessionTimeout and maxSessionTimeout",
                self.lease_ms,
                session_ms,
            )

    def look(self) -> int | None:
        """Create the node of this process if necessary, and see whether it is the first."""
        found = self._children()
        own = [name for name in found if name.startswith(f"n-{self._own}-") and self._is_of_this_session(name)]
        if not own:
            self._node = None
            path = f"{self._root}/leader/n-{self._own}-"
            self._checked_call(lambda client: client.create_async(path, ephemeral=True, sequence=True, makepath=True))
            return None
        self._node = f"{self._root}/leader/{own[0]}"
        return _number(own[0]) + 1 if found[0] == own[0] else None

    def claim(self, term: int) -> bool:
        """Write the claim into the node, if it still exists."""
        try:
            self._write_address(term, "")
            self._checked_call(lambda client: client.ensure_path_async(f"{self._root}/jobs"))
        except NotLeadingError:
            return False
        return True

    def confirm(self, url: str) -> None:
        """Write the node, do not read it: a server that lags behind the others would still show it."""
        self._write_address(self._term(), url)

    def pointers(self) -> Pointers:
        """Return the pointers below the node of jobs."""
        assert self._node is not None, "no term was claimed"
        return _NodePointers(self, f"{self._root}/jobs", self._node)

    def leader(self) -> LeaderAddress | None:
        """Return the leader that the first node names."""
        from kazoo.exceptions import NoNodeError

        for name in self._children()[:1]:
            with contextlib.suppress(NoNodeError, *DECODING_ERRORS):
                data, _ = self.call(lambda client: client.get_async(f"{self._root}/leader/{name}"))  # noqa: B023
                return from_json(data, LeaderAddress)
        return None

    def close(self) -> None:
        """End the session, which removes the node."""
        with contextlib.suppress(Exception):
            self._client.stop()
            self._client.close()

    @property
    def session(self) -> tuple[int, bytes]:
        """Return the node's number and the id in its name, or raise OSError if there is none."""
        found: tuple[int, bytes] | None = self._client.client_id
        if found is None:
            raise OSError("no session with ZooKeeper")
        return found

    def call(self, call: Callable[[Any], Any]) -> Any:
        """Call an asynchronous method, and wait for the answer.

        Raises KazooException, and OSError without an answer.
        """
        return call(self._client).get(timeout=self.lease_ms / 1000)

    def _checked_call(self, call: Callable[[Any], Any]) -> Any:
        """Call an asynchronous method, and wait. Raises OSError for all failures."""
        try:
            return self.call(call)
        except self._failures as error:
            raise OSError(f"ZooKeeper does not answer: {_words(error)}") from error

    def retry_unanswered(self, call: Callable[[], Answer]) -> Answer:
        """Retry a call as long as a session lasts: when a server is lost, another one answers within a second."""
        until_s = time.monotonic() + self.lease_ms / 1000
        while True:
            try:
                return call()
            except self._failures as error:
                if time.monotonic() > until_s:
                    raise OSError(f"ZooKeeper does not answer: {_words(error)}") from error
                time.sleep(_PAUSE_S)

    def _children(self) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            found = self.call(lambda client: client.get_children_async(f"{self._root}/leader"))
        except NoNodeError:
            return []
        except self._failures as error:
            raise OSError(f"ZooKeeper does not answer: {_words(error)}") from error
        return sorted((name for name in found if _NUMBER.search(name)), key=_number)

    def _is_of_this_session(self, name: str) -> bool:
        stat = self._checked_call(lambda client: client.exists_async(f"{self._root}/leader/{name}"))
        return stat is not None and stat.ephemeralOwner == self.session[0]

    def _write_address(self, term: int, url: str) -> None:
        from kazoo.exceptions import ConnectionClosedError, NoNodeError, SessionExpiredError

        data = msgspec.json.encode(LeaderAddress(term, socket.gethostname(), os.getpid(), url))
        try:
            self.call(lambda client: client.set_async(self._node, data))
        except ConnectionClosedError as error:
            raise OSError(f"ZooKeeper does not answer: {_words(error)}") from error
        except (NoNodeError, SessionExpiredError):
            raise NotLeadingError(
                "its session with ZooKeeper has expired: it was silent for too long, and another process may lead"
            ) from None
        except self._failures as error:
            raise OSError(f"ZooKeeper does not answer: {_words(error)}") from error

    def _term(self) -> int:
        return _number(self._node or "") + 1


class _NodePointers(Pointers):
    """`nodes`: the node below which each job has one. `leader`: the node of this process."""

    def __init__(self, register: ZooKeeperRegister, nodes: str, leader: str) -> None:
        self._register = register
        self._nodes = nodes
        self._leader = leader

    def all(self) -> dict[str, str]:
        # All writes of former leaders are visible: this process has written its claim after them, on the same server.
        return self._register.retry_unanswered(self._read)

    def _read(self) -> dict[str, str]:
        from kazoo.exceptions import NoNodeError

        found = {}
        for name in self._register.call(lambda client: client.get_children_async(self._nodes)):
            with contextlib.suppress(NoNodeError):
                data, _ = self._register.call(lambda client: client.get_async(f"{self._nodes}/{name}"))  # noqa: B023
                found[name] = data.decode()
        return found

    def put(self, id: str, pointer: str) -> None:
        self._register.retry_unanswered(lambda: self._put(id, pointer.encode()))

    def remove(self, id: str) -> None:
        self._register.retry_unanswered(lambda: self._remove(id))

    def _put(self, id: str, data: bytes) -> None:
        from kazoo.exceptions import NodeExistsError, NoNodeError

        path = f"{self._nodes}/{id}"
        try:
            self._change(lambda transaction: transaction.set_data(path, data))
        except NoNodeError:
            # The node may exist by now: created by a try whose answer was lost.
            with contextlib.suppress(NodeExistsError):
                self._change(lambda transaction: transaction.create(path, data))
                return
            self._change(lambda transaction: transaction.set_data(path, data))

    def _remove(self, id: str) -> None:
        from kazoo.exceptions import NoNodeError

        with contextlib.suppress(NoNodeError):
            self._change(lambda transaction: transaction.delete(f"{self._nodes}/{id}"))

    def _change(self, add: Callable[[Any], object]) -> None:
        """Make one change, if the leader's node exists. Raises KazooException, NotLeadingError."""
        from kazoo.exceptions import NoNodeError

        def committed(client: Any) -> Any:
            transaction = client.transaction()
            transaction.check(self._leader, _WHATEVER)
            add(transaction)
            return transaction.commit_async()

        check, change = self._register.call(committed)
        if isinstance(check, NoNodeError):
            raise NotLeadingError(
                "the session of this process with ZooKeeper has expired: another process may lead the cluster, so "
                "writes of this one no longer count"
            )
        if isinstance(change, Exception):
            raise change


def _timeout() -> type[Exception]:
    """Return the errors that kazoo raises if no answer comes in time."""
    from kazoo.handlers.threading import KazooTimeoutError

    timeout: type[Exception] = KazooTimeoutError
    return timeout


def _number(name: str) -> int:
    found = _NUMBER.search(name)
    return int(found[1]) if found is not None else 0


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
