"""The brokers of a cluster as a client sees them: connections, which of them answer, who leads which partition.

A broker may be away, or be stopped: its machine accepts connections then, and nobody answers. So one that has failed is
asked after all others, and any broker that was ever told of may stand in for those of `bootstrap.servers`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connectors.kafka.protocol.connection import Address, BrokerConnection, addresses_of
from penstock.connectors.kafka.protocol.wire import Request, Response

_METADATA = 3
_NOT_THERE, _FORBIDDEN = 3, 29
"""Error codes for a topic: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED."""


class Brokers:
    """Of one thread. A broker that does not answer for `timeout_s` seconds has failed.

    Methods raise OSError if no broker that could answer does, PermissionError if one refuses the user.
    """

    def __init__(self, properties: Mapping[str, str], timeout_s: float) -> None:
        self._properties = properties
        self._timeout_s = timeout_s
        self._known = addresses_of(properties["bootstrap.servers"])
        """In the order in which they are asked."""
        self._has_asked = False
        self._connections: dict[Address, BrokerConnection] = {}

    def call(self, address: Address, request: Request) -> Response:
        """Ask this one."""
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = BrokerConnection(address, self._properties, self._timeout_s)
            return connection.call(request)
        except OSError:
            self._connections.pop(address, None)
            if address in self._known:
                self._known.remove(address)
                self._known.append(address)
            raise

    def call_any(self, request: Request) -> Response:
        """Ask the first one that answers."""
        if not self._has_asked:
            # Those that were set may be fewer than there are, and away later.
            self.all()
        return self._first(request)

    def all(self) -> list[Address]:
        """Those that are up, as one of them says."""
        response = self._first(_metadata([]))
        brokers = list(_brokers(response).values())
        self._known += [address for address in brokers if address not in self._known]
        self._has_asked = True
        return brokers

    def leaders(self, topic: str, told_by: Address | None = None) -> dict[int, Address] | None:
        """Who leads the partitions of a topic, as any broker says, or this one; empty: there is no such topic.

        None: this user is not told. Raises ConnectionError if a partition has no leader at present.
        """
        request = _metadata([topic])
        response = self._first(request) if told_by is None else self.call(told_by, request)
        brokers = _brokers(response)
        response.string()
        response.int32()
        ((error, partitions),) = response.array(lambda: _topic(response))
        if error == _FORBIDDEN:
            return None
        if error == _NOT_THERE:
            return {}
        without = [number for number, leader in partitions if leader not in brokers]
        if error or without:
            raise ConnectionError(f"the topic {topic} has no leader: error {error}, partitions {sorted(without)}")
        return {number: brokers[leader] for number, leader in partitions}

    def close(self) -> None:
        """Close all connections. It may be used again."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _first(self, request: Request) -> Response:
        failure = OSError("no bootstrap server is set")
        for address in list(self._known):
            try:
                return self.call(address, request)
            except PermissionError:
                raise
            except OSError as error:
                failure = error
        raise failure


def _metadata(topics: list[str]) -> Request:
    request = Request(_METADATA, 4).int32(len(topics))
    for topic in topics:
        request.string(topic)
    # It is not to be created.
    return request.int8(False)


def _brokers(response: Response) -> dict[int, Address]:
    response.int32()

    def broker() -> tuple[int, Address]:
        number, address = response.int32(), (response.string(), response.int32())
        response.string()
        return number, address

    return dict(response.array(broker))


def _topic(response: Response) -> tuple[int, list[tuple[int, int]]]:
    def partition() -> tuple[int, int]:
        response.int16()
        number_and_leader = response.int32(), response.int32()
        response.array(response.int32)
        response.array(response.int32)
        return number_and_leader

    error = response.int16()
    response.string()
    response.int8()
    return error, response.array(partition)
