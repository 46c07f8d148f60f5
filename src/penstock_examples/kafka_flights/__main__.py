"""The flights of 2013 from a Kafka topic, counted by airport, into a topic and a table of PostgreSQL, exactly once.

    make demo-kafka

On the way a worker of the job, its driver and the broker are killed (`kill -9`). Each message out, and each row, has an
airport and the number of its reports so far, so a reader with `read_committed` can tell whether one is missing, or is
there twice: the numbers of an airport are 1, 2, 3 and so on.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from penstock.testing.kafka_broker import KafkaBroker
from penstock.testing.postgres_server import PostgresServer
from penstock_examples.flights.flights import read_reports
from penstock_examples.flights.kill import workers
from penstock_examples.kafka_flights.counts import TopicReader, create_table, lost_and_doubled, read_table
from penstock_examples.kafka_flights.driver import Driver
from penstock_examples.kafka_flights.feed import Feed
from penstock_examples.kafka_flights.job import COUNTS, PARTITIONS, REPORTS

_POLL_S = 0.1


def main() -> None:
    """Start the servers and the job, kill processes, and check the job's output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=None, help="so many reports instead of the whole year")
    parser.add_argument("--seconds", type=float, default=30, help="within which the reports come")
    arguments = parser.parse_args()
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-flights-") as folder,
        console.status("Starting a Kafka broker and a PostgreSQL server …") as starting,
        KafkaBroker() as broker,
        PostgresServer() as database,
    ):
        create_table(database.url)
        reports = read_reports().first(arguments.first)
        total = len(reports)
        feed = Feed(broker.bootstrap, reports, arguments.seconds)
        starting.stop()
        console.print(
            f"{total:,} reports come into the topic '{REPORTS}' ({PARTITIONS} partitions) within "
            f"{arguments.seconds:.0f} s. A job counts them, exactly once, in its own process: penstock run."
        )
        with Driver(Path(folder), broker.bootstrap, database.url, str(total)) as driver, feed:
            _Run(driver=driver, broker=broker, feed=feed, total=total, console=console).go()
        for where, counts in (
            ("topic", TopicReader(broker.bootstrap).read_all()),
            ("table", read_table(database.url)),
        ):
            name = f"the {where} '{COUNTS}'"
            lost, doubled = lost_and_doubled(name, counts, total)
            console.print(f"In {name} {total:,} counts of {len(counts)} airports: lost {lost}, doubled {doubled}.")


class _Run:
    """Watches the output of the job from its start to its end, and kills processes on the way."""

    def __init__(self, driver: Driver, broker: KafkaBroker, feed: Feed, total: int, console: Console) -> None:
        self._driver = driver
        self._broker = broker
        self._feed = feed
        self._total = total
        self._console = console
        self._reader = TopicReader(broker.bootstrap)
        self._came_s = time.monotonic()
        self._pause_s = 0.0
        """The longest time without a commit since a process was killed."""

    def go(self) -> None:
        """Return when the job is done."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        faults = (self._kill_a_worker, self._kill_the_driver, self._kill_the_broker)
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("committed counts", total=self._total)
            part = self._total // (len(faults) + 1)
            for number, fault in enumerate(faults, 1):
                # So that reports still arrive at each fault, and after it.
                self._feed.allow(number * part + part // 2)
                self._follow(bar, task, number * part)
                if number > 1:
                    self._tell_pause()
                # Forget pauses of the start, and before this fault.
                self._pause_s = 0.0
                fault()
            self._feed.allow(self._total)
            self._follow(bar, task, self._total)
            self._tell_pause()
            while not self._driver.has_ended():
                time.sleep(_POLL_S)
        self._reader.close()

    def _follow(self, bar: Progress, task: TaskID, seen: int) -> None:
        """Read committed counts until there are this many."""
        while self._reader.seen < seen and not self._driver.has_ended():
            if self._reader.read(_POLL_S):
                bar.update(task, completed=self._reader.seen)
                now_s = time.monotonic()
                self._pause_s = max(self._pause_s, now_s - self._came_s)
                self._came_s = now_s

    def _tell_pause(self) -> None:
        self._console.print(f"  … it recovered: {self._pause_s:.1f} s at most without new counts in the topic.")

    def _kill_a_worker(self) -> None:
        while not (found := workers()):
            self._driver.has_ended()
            time.sleep(_POLL_S)
        self._console.print(f"Now worker {found[-1]} is killed (kill -9); the job restarts from its newest checkpoint")
        os.kill(found[-1], signal.SIGKILL)

    def _kill_the_driver(self) -> None:
        self._console.print(f"Now the driver {self._driver.pid} is killed, with its JVM; another one starts: -s latest")
        self._driver.kill_and_start_again()

    def _kill_the_broker(self) -> None:
        self._console.print(
            f"Now the Kafka broker {self._broker.pid} is killed, and starts again; the job waits for it"
        )
        self._broker.kill()
        self._broker.start()


if __name__ == "__main__":
    main()
