"""Transactions as their coordinators see them: described, listed, ended, and fenced. Each call waits.

A transaction is named by its transactional id, and belongs to a producer id with an epoch. Whoever knows these three
may end it, which is how a job commits what a process had prepared that has died since. Source: KIP-98, KIP-664.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from penstock.connectors.kafka.protocol.brokers import Brokers
from penstock.connectors.kafka.protocol.connection import Address
from penstock.connectors.kafka.protocol.partitions import id_of_each_partition
from penstock.connectors.kafka.protocol.wire import Request, Response

T = TypeVar("T")

_FIND_COORDINATOR, _INIT_PRODUCER_ID, _END_TXN, _DESCRIBE, _LIST = 10, 22, 26, 65, 66
_LOG = "__transaction_state"
"""The topic of transactions: the leader of a partition of it is the coordinator of the ids there."""
_PARTITIONS = 50
"""Of that topic, where the user is not told: transaction.state.log.num.partitions, by default."""
_PAUSE_S = 0.02
_NO_MARK_MS = 2
"""A timeout that is no fence's mark: it is even."""


class ErrorCode(enum.IntEnum):
    """Those that mean something here."""

    NONE = 0
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    PRODUCER_FENCED = 90
    TRANSACTIONAL_ID_NOT_FOUND = 105


_AGAIN = {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
_NOT_THAT_ONE = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}


class Described(NamedTuple):
    """The last transaction of a transactional id. `state` is Kafka's: Ongoing, CompleteCommit and others."""

    state: str
    producer_id: int
    epoch: int
    timeout_ms: int = 0
    """As the last producer has asked for it."""

    @property
    def fenced_epoch(self) -> int | None:
        """The transaction that was given up by who was the last to ask for a producer; None: that was a producer."""
        return self.timeout_ms // 2 if self.timeout_ms % 2 else None


def timeout_of_fence(epoch: int) -> int:
    """In milliseconds. It keeps in the id which transaction was given up."""
    return 2 * epoch + 1


def timeout_of_producer(timeout_ms: str) -> str:
    """What a producer asks for, where its user has set `timeout_ms`: an even number, so that it is none of a fence."""
    # What is not a number is refused by the client.
    return str(int(timeout_ms) & ~1) if timeout_ms.isdecimal() else timeout_ms


class TransactionClient:
    """Of one thread.

    Its methods raise OSError if brokers can't be reached for `patience_s` seconds, PermissionError if they refuse. One
    that has not answered after `timeout_s` seconds is asked again, on another connection.
    """

    def __init__(self, properties: Mapping[str, str], patience_s: float = 60.0, timeout_s: float = 10.0) -> None:
        self.properties = properties
        self._patience_s = patience_s
        self._brokers = Brokers(properties, min(timeout_s, patience_s))
        self._coordinators: dict[str, Address] = {}

    def describe(self, transactional_id: str) -> Described | None:
        """What has become of an id; None: its coordinator does not know it (any more)."""

        def ask() -> tuple[int, Described]:
            request = Request(_DESCRIBE, 0, is_flexible=True).strings([transactional_id]).tags()
            response = self._brokers.call(self._coordinator_of(transactional_id), request)
            response.int32()
            (found,) = response.array(lambda: _described(response))
            return found

        error, described = self._until_done(transactional_id, ask)
        return described if error == ErrorCode.NONE else None

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> bool:
        """Commit or abort. Returns whether it is, now or before; False: the id has no such transaction any more."""

        def ask() -> tuple[int, None]:
            request = Request(_END_TXN, 1).string(transactional_id).int64(producer_id).int16(epoch).int8(commit)
            response = self._brokers.call(self._coordinator_of(transactional_id), request)
            response.int32()
            return response.int16(), None

        error, _ = self._until_done(transactional_id, ask)
        return error == ErrorCode.NONE

    def fence(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Abort this transaction, if it is open, so that who has begun it can't go on.

        The id stays as that has left it: with the next epoch, and aborted. To ask for a producer once more, as clients
        do, leaves a later epoch and nothing open, as the successor of a transaction that was committed does. So it
        is looked at before each request; if another run does the same between the two, `fenced_epoch` tells.
        """
        timeout_ms = timeout_of_fence(epoch)

        def ask() -> tuple[int, None]:
            nonlocal timeout_ms
            now = self.describe(transactional_id)
            if now is not None and now.state.startswith("Prepare"):
                # It is being ended, by this call or another one.
                return ErrorCode.CONCURRENT_TRANSACTIONS, None
            if now is None or now[:3] != ("Ongoing", producer_id, epoch):
                return ErrorCode.NONE, None
            request = Request(_INIT_PRODUCER_ID, 1).string(transactional_id).int32(timeout_ms)
            response = self._brokers.call(self._coordinator_of(transactional_id), request)
            response.int32()
            error = response.int16()
            if error == ErrorCode.INVALID_TRANSACTION_TIMEOUT and timeout_ms != _NO_MARK_MS:
                # Brokers that allow less than a minute can't keep the mark.
                timeout_ms = _NO_MARK_MS
                return ErrorCode.CONCURRENT_TRANSACTIONS, None
            return error, None

        self._until_done(transactional_id, ask)

    def ongoing(self, prefix: str) -> list[str]:
        """The ids that begin so and have an open transaction, at all coordinators.

        While one of them moves to another broker, or has not read its transactions yet, which a broker does after its
        start, none may know them: then all are asked again.
        """

        def ask() -> tuple[int, list[str]]:
            found: list[str] = []
            coordinators = self._brokers.leaders(_LOG)
            if coordinators != {}:
                ids = id_of_each_partition(_PARTITIONS if coordinators is None else len(coordinators), prefix)
                if error := self._error_of_coordinators(ids):
                    return error, []
            for address in self._brokers.all() if coordinators is None else set(coordinators.values()):
                if coordinators is not None and self._brokers.leaders(_LOG, address) != coordinators:
                    return ErrorCode.LEADER_NOT_AVAILABLE, []
                request = Request(_LIST, 0, is_flexible=True).strings(["Ongoing"]).strings([]).tags()
                response = self._brokers.call(address, request)
                response.int32()
                if error := response.int16():
                    return error, []
                response.array(response.string)
                found += response.array(lambda response=response: _listed(response))  # type: ignore[misc]
            return ErrorCode.NONE, [name for name in found if name.startswith(prefix)]

        return self._until_done(prefix, ask)[1]

    def close(self) -> None:
        """Close all connections. The client may be used again."""
        self._brokers.close()

    def _error_of_coordinators(self, transactional_ids: list[str]) -> int:
        """Of the first of them that does not answer for its ids yet; else NONE.

        `ListTransactions` has no error for a broker that leads a partition and has not begun to read it.
        """
        by_coordinator: dict[Address, list[str]] = {}
        for one in transactional_ids:
            by_coordinator.setdefault(self._coordinator_of(one), []).append(one)
        for address, ids in by_coordinator.items():
            response = self._brokers.call(address, Request(_DESCRIBE, 0, is_flexible=True).strings(ids).tags())
            response.int32()
            for error, _ in response.array(lambda response=response: _described(response)):  # type: ignore[misc]
                if error != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and error != ErrorCode.NONE:
                    self._coordinators.clear()
                    return int(error)
        return ErrorCode.NONE

    def _until_done(self, transactional_id: str, ask: Callable[[], tuple[int, T]]) -> tuple[int, T]:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                error, answer = ask()
            except PermissionError:
                raise
            except OSError as failure:
                self._coordinators.clear()
                if time.monotonic() > deadline:
                    raise ConnectionError(
                        f"the Kafka brokers {self.properties['bootstrap.servers']} can't be reached: {failure}"
                    ) from failure
            else:
                if error == ErrorCode.NONE or error in _NOT_THAT_ONE:
                    return error, answer
                if error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise _forbidden(transactional_id)
                if error not in _AGAIN or time.monotonic() > deadline:
                    raise ConnectionError(f"the coordinator of '{transactional_id}' has answered with error {error}")
                if error != ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinators.pop(transactional_id, None)
            time.sleep(_PAUSE_S)

    def _coordinator_of(self, transactional_id: str) -> Address:
        address = self._coordinators.get(transactional_id)
        if address is None:
            response = self._brokers.call_any(Request(_FIND_COORDINATOR, 1).string(transactional_id).int8(1))
            response.int32()
            error = response.int16()
            response.string()
            if error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise _forbidden(transactional_id)
            if error:
                raise ConnectionError(f"no coordinator for '{transactional_id}': error {error}")
            response.int32()
            address = self._coordinators[transactional_id] = response.string(), response.int32()
        return address


def _forbidden(transactional_id: str) -> PermissionError:
    return PermissionError(
        f"the user may not write and describe the transactional id '{transactional_id}': give it these rights on all "
        "ids with this prefix"
    )


def _described(response: Response) -> tuple[int, Described]:
    error = response.int16()
    response.string()
    state = response.string()
    timeout_ms = response.int32()
    response.int64()
    described = Described(state, response.int64(), response.int16(), timeout_ms)

    def topic() -> None:
        response.string()
        response.array(response.int32)
        response.tags()

    response.array(topic)
    response.tags()
    return error, described


def _listed(response: Response) -> str:
    name = response.string()
    response.int64()
    response.string()
    response.tags()
    return name
