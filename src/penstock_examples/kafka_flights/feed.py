"""The feed: a thread that writes the reports to the topic, evenly, except those that are held back."""

from __future__ import annotations

import json
import threading
import time
from types import TracebackType
from typing import Self

from penstock_examples.flights.flights import Reports
from penstock_examples.kafka_flights.job import COUNTS, PARTITIONS, REPORTS

_TICK_S = 0.02


class Feed:
    """Context manager that writes while its block runs. Creates the topics.

    `seconds`: the time in which all reports are written, if none is held back.
    """

    def __init__(self, bootstrap: str, reports: Reports, seconds: float) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": bootstrap})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (REPORTS, COUNTS)]).values():
            created.result(60)
        # Each report once and in order, even if brokers fail. Errors that the client logs then are expected.
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**settings, "queue.buffering.max.messages": len(reports) + 1})
        self._reports = reports
        self._per_s = len(reports) / seconds
        self._allowed = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._producer.purge()

    def allow(self, count: int) -> None:
        """Hold back the reports after this number, so that a job on a machine of any speed has work left later."""
        self._allowed = count

    def _write(self) -> None:
        columns = self._reports.columns
        pairs = list(zip(columns["airport"], columns["reported_ms"], strict=True))
        at_s, due, written = time.monotonic(), 0.0, 0
        while written < len(pairs) and not self._over.is_set():
            now_s = time.monotonic()
            due = min(self._allowed, due + (now_s - at_s) * self._per_s)
            at_s = now_s
            for number in range(written, int(due)):
                airport, reported_ms = pairs[number]
                value = json.dumps({"airport": airport, "reported": reported_ms})
                self._producer.produce(REPORTS, value, partition=number % PARTITIONS)
            written = int(due)
            self._producer.poll(0)
            self._over.wait(_TICK_S)
        while self._producer.flush(_TICK_S) and not self._over.is_set():
            pass
