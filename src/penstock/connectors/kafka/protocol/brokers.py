"""The brokers of a cluster as a client sees them: connections, which of them answer, which one leads which partition.

A broker may be suspended: its machine accepts connections then, and does not answer. A broker that failed is
therefore tried last, and each known broker can replace those of `bootstrap.servers`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connectors.kafka.protocol.connection import Address, BrokerConnection, addresses_of
from penstock.connectors.kafka.protocol.wire import Request, Response

_METADATA = 3
_UNKNOWN_TOPIC, _FORBIDDEN = 3, 29
"""Error codes for a topic: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED."""


class Brokers:
    """Connections of one thread to all brokers. A broker that does not answer for `timeout_s` seconds has failed.

    Methods raise OSError if no broker that could answer does, PermissionError if a broker refuses the user.
    """

    def __init__(self, properties: Mapping[str, str], timeout_s: float) -> None:
        self._properties = properties
        self._timeout_s = timeout_s
        self._known = addresses_of(properties["bootstrap.servers"])
        """In the order in which they are tried."""
        self._has_listed = False
        self._connections: dict[Address, BrokerConnection] = {}

    def call(self, address: Address, request: Request) -> Response:
        """Send a request to this broker."""
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
        """Send a request to the first broker that answers."""
        if not self._has_listed:
            # The configured brokers may be only some of the cluster, and may be unavailable later.
            self.all()
        return self._first(request)

    def all(self) -> list[Address]:
        """Return the brokers that are up, according to one of them."""
        response = self._first(_metadata([]))
        brokers = list(_brokers(response).values())
        self._known += [address for address in brokers if address not in self._known]
        self._has_listed = True
        return brokers

    def leaders(self, topic: str, broker: Address | None = None) -> dict[int, Address] | None:
        """Return the leaders of a topic's partitions, according to `broker` or to any; empty if the topic is missing.

        Return None if this user may not see the topic. Raise ConnectionError if a partition has no leader at present.
        """
        request = _metadata([topic])
        response = self._first(request) if broker is None else self.call(broker, request)
        brokers = _brokers(response)
        response.string()
        response.int32()
        ((error, partitions),) = response.array(lambda: _topic(response))
        if error == _FORBIDDEN:
            return None
        if error == _UNKNOWN_TOPIC:
            return {}
        without = [number for number, leader in partitions if leader not in brokers]
        if error or without:
            raise ConnectionError(f"the topic {topic} has no leader: error {error}, partitions {sorted(without)}")
        return {number: brokers[leader] for number, leader in partitions}

    def close(self) -> None:
        """Close all connections. The object may be used again."""
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
    # Do not create the topic.
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
