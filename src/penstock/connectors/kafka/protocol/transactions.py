"""Describe, list, end and fence transactions through their coordinators. Each call waits.

A transaction has a transactional id, and belongs to a producer id with an epoch. A client that knows these three may
end it: thus a job commits a transaction whose process has died. Source: KIP-98, KIP-664.
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
_TRANSACTIONS_TOPIC = "__transaction_state"
"""The topic of transactions: the leader of one of its partitions coordinates the ids in that partition."""
_PARTITIONS = 50
"""Partitions of that topic if this user may not see it: the default of transaction.state.log.num.partitions."""
_PAUSE_S = 0.02
_UNMARKED_TIMEOUT_MS = 2
"""A timeout without a fence's mark: it is even."""


class ErrorCode(enum.IntEnum):
    """The error codes that this client handles."""

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


_RETRIABLE = {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
_NO_SUCH_TRANSACTION = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}


class TransactionDescription(NamedTuple):
    """The last transaction of a transactional id. `state` is Kafka's: Ongoing, CompleteCommit and others."""

    state: str
    producer_id: int
    epoch: int
    timeout_ms: int = 0
    """The timeout that the last producer requested."""

    @property
    def fenced_epoch(self) -> int | None:
        """Return the epoch of the aborted transaction if `fence` sent the last request of the id, else None."""
        return self.timeout_ms // 2 if self.timeout_ms % 2 else None


def timeout_of_fence(epoch: int) -> int:
    """Return a timeout in milliseconds that stores in the id which transaction was fenced."""
    return 2 * epoch + 1


def timeout_of_producer(timeout_ms: str) -> str:
    """Return the timeout that a producer requests for a user's `timeout_ms`: even, to differ from those of fences."""
    # The client refuses a timeout that is not a number.
    return str(int(timeout_ms) & ~1) if timeout_ms.isdecimal() else timeout_ms


class TransactionClient:
    """Requests of one thread about transactions.

    Methods raise OSError if brokers cannot be reached for `patience_s` seconds, PermissionError if they refuse. A
    request without an answer after `timeout_s` seconds is sent again, on another connection.
    """

    def __init__(self, properties: Mapping[str, str], patience_s: float = 60.0, timeout_s: float = 10.0) -> None:
        self.properties = properties
        self._patience_s = patience_s
        self._brokers = Brokers(properties, min(timeout_s, patience_s))
        self._coordinators: dict[str, Address] = {}

    def describe(self, transactional_id: str) -> TransactionDescription | None:
        """Return the last transaction of an id, or None if its coordinator does not, or no longer, know the id."""

        def request_once() -> tuple[int, TransactionDescription]:
            request = Request(_DESCRIBE, 0, is_flexible=True).strings([transactional_id]).tags()
            response = self._brokers.call(self._coordinator_of(transactional_id), request)
            response.int32()
            (found,) = response.array(lambda: _described(response))
            return found

        error, described = self._until_done(transactional_id, request_once)
        return described if error == ErrorCode.NONE else None

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> bool:
        """Commit or abort. Return whether it has ended so, now or before; False if the id has no such transaction."""

        def request_once() -> tuple[int, None]:
            request = Request(_END_TXN, 1).string(transactional_id).int64(producer_id).int16(epoch).int8(commit)
            response = self._brokers.call(self._coordinator_of(transactional_id), request)
            response.int32()
            return response.int16(), None

        error, _ = self._until_done(transactional_id, request_once)
        return error == ErrorCode.NONE

    def fence(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Abort this transaction if it is open, so that its producer cannot continue.

        The id keeps the result: the next epoch, and aborted. A second request for a producer, as clients send it, would
        leave a later epoch and no open transaction, like the successor of a committed transaction. Therefore the id is
        described before each request; if another run does the same between the two, `fenced_epoch` shows it.
        """
        timeout_ms = timeout_of_fence(epoch)

        def request_once() -> tuple[int, None]:
            nonlocal timeout_ms
            now = self.describe(transactional_id)
            if now is not None and now.state.startswith("Prepare"):
                # The transaction is being ended, by this call or another one.
                return ErrorCode.CONCURRENT_TRANSACTIONS, None
            if now is None or now[:3] != ("Ongoing", producer_id, epoch):
                return ErrorCode.NONE, None
            request = Request(_INIT_PRODUCER_ID, 1).string(transactional_id).int32(timeout_ms)
            response = self._brokers.call(self._coordinator_of(transactional_id), request)
            response.int32()
            error = response.int16()
            if error == ErrorCode.INVALID_TRANSACTION_TIMEOUT and timeout_ms != _UNMARKED_TIMEOUT_MS:
                # Brokers that allow less than a minute cannot keep the mark.
                timeout_ms = _UNMARKED_TIMEOUT_MS
                return ErrorCode.CONCURRENT_TRANSACTIONS, None
            return error, None

        self._until_done(transactional_id, request_once)

    def ongoing(self, prefix: str) -> list[str]:
        """Return the ids with this prefix that have an open transaction, from all coordinators.

        While a coordinator moves to another broker, or has not read its transactions yet after a start, the list may be
        incomplete: then all coordinators are queried again.
        """

        def request_once() -> tuple[int, list[str]]:
            found: list[str] = []
            coordinators = self._brokers.leaders(_TRANSACTIONS_TOPIC)
            if coordinators != {}:
                ids = id_of_each_partition(_PARTITIONS if coordinators is None else len(coordinators), prefix)
                if error := self._error_of_coordinators(ids):
                    return error, []
            for address in self._brokers.all() if coordinators is None else set(coordinators.values()):
                if coordinators is not None and self._brokers.leaders(_TRANSACTIONS_TOPIC, address) != coordinators:
                    return ErrorCode.LEADER_NOT_AVAILABLE, []
                request = Request(_LIST, 0, is_flexible=True).strings(["Ongoing"]).strings([]).tags()
                response = self._brokers.call(address, request)
                response.int32()
                if error := response.int16():
                    return error, []
                response.array(response.string)
                found += response.array(lambda response=response: _listed(response))  # type: ignore[misc]
            return ErrorCode.NONE, [name for name in found if name.startswith(prefix)]

        return self._until_done(prefix, request_once)[1]

    def close(self) -> None:
        """Close all connections. The client may be used again."""
        self._brokers.close()

    def _error_of_coordinators(self, transactional_ids: list[str]) -> int:
        """Return the error of the first coordinator that does not answer for its ids yet, else NONE.

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

    def _until_done(self, transactional_id: str, request_once: Callable[[], tuple[int, T]]) -> tuple[int, T]:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                error, answer = request_once()
            except PermissionError:
                raise
            except OSError as failure:
                self._coordinators.clear()
                if time.monotonic() > deadline:
                    raise ConnectionError(
                        f"cannot reach the Kafka brokers {self.properties['bootstrap.servers']}: {failure}"
                    ) from failure
            else:
                if error == ErrorCode.NONE or error in _NO_SUCH_TRANSACTION:
                    return error, answer
                if error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise _forbidden(transactional_id)
                if error not in _RETRIABLE or time.monotonic() > deadline:
                    raise ConnectionError(f"the coordinator of '{transactional_id}' answered with error {error}")
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
                raise ConnectionError(f"cannot find the coordinator of '{transactional_id}': error {error}")
            response.int32()
            address = self._coordinators[transactional_id] = response.string(), response.int32()
        return address


def _forbidden(transactional_id: str) -> PermissionError:
    return PermissionError(
        f"the user may not write and describe the transactional id '{transactional_id}': grant both rights on all "
        "ids with this prefix"
    )


def _described(response: Response) -> tuple[int, TransactionDescription]:
    error = response.int16()
    response.string()
    state = response.string()
    timeout_ms = response.int32()
    response.int64()
    described = TransactionDescription(state, response.int64(), response.int16(), timeout_ms)

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
