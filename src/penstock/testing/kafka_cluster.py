"""A cluster of three Kafka brokers on this machine, on the loopback, while a block or a command runs.

    python -m penstock.testing.kafka_cluster

Each is a broker and a controller of KRaft. All three store what is written to a topic, and a write is confirmed when
two have it, so any one may be killed. They start in parallel, within some 15 seconds, and need a gigabyte of memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from penstock.testing.kafka_broker import KafkaBroker, Node
from penstock.testing.server_process import free_ports, serve

_BROKERS = 3


class KafkaBrokers:
    """A cluster that runs while its `with` block does. `bootstrap`: for `bootstrap.servers`.

    `creates_topics`: create missing topics on write. Raises ConfigurationError if the brokers are unavailable, or do
    not start.
    """

    def __init__(self, creates_topics: bool = False) -> None:
        ports = free_ports(2 * _BROKERS)
        nodes = [Node(number, ports[:_BROKERS], ports[_BROKERS:]) for number in range(1, _BROKERS + 1)]
        self._brokers = {node.number: KafkaBroker(creates_topics=creates_topics, node=node) for node in nodes}
        self._started: list[KafkaBroker] = []

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self._brokers.values())

    @property
    def numbers(self) -> list[int]:
        """The description of the brokers for clients."""
        return list(self._brokers)

    def broker(self, number: int) -> KafkaBroker:
        """Return the broker with this number. Raises KeyError if there is none."""
        return self._brokers[number]

    def __enter__(self) -> Self:
        # In parallel: a broker does not serve until a majority has elected a controller.
        with ThreadPoolExecutor(_BROKERS) as starts:
            starting = [starts.submit(broker.__enter__) for broker in self._brokers.values()]
        self._started = [one.result() for one in starting if one.exception() is None]
        if len(self._started) < _BROKERS:
            self.__exit__(None, None, None)
        for one in starting:
            one.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # By SIGKILL: the last two would wait for a missing controller to hand over their partitions.
        for broker in self._started:
            broker.kill()
            broker.__exit__(kind, error, trace)


@contextlib.contextmanager
def kafka_cluster() -> Iterator[str]:
    """Run a cluster and print its address, for trying things out."""
    with KafkaBrokers(creates_topics=True) as brokers:
        yield f"bootstrap.servers={brokers.bootstrap}"


if __name__ == "__main__":
    serve(kafka_cluster())
