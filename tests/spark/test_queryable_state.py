"""State of a running job, asked for from outside."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import environment, wait_until, workers
from typer.testing import CliRunner

from penstock.common import Types, WatermarkStrategy
from penstock.common.errors import PenstockError, StateNotFoundError
from penstock.common.job_threads import start_thread
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream.functions import AggregateFunction, KeyedProcessFunction
from penstock.datastream.queryable_state import QueryableStateClient
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.engine.snapshots.state_answer import Isolation
from penstock.service.cli.main import app
from penstock.service.cluster.running_jobs import JobRegistry

pytestmark = pytest.mark.spark


class Seen(KeyedProcessFunction[int, int, int]):
    """Keeps each value of a key in a map."""

    def open(self, runtime_context: Any) -> None:
        descriptor = MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN())
        descriptor.set_queryable("all seen")
        self.seen = runtime_context.get_map_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.put(value, True)


class Total(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Everything(KeyedProcessFunction[int, int, int]):
    """Keeps the values of a key in each way that there is."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.STRING()))
        self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", max, Types.LONG()))
        self.total = runtime_context.get_aggregating_state(AggregatingStateDescriptor("total", Total(), Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.value.update(value)
        self.map.put(value, str(value))
        for state in (self.list, self.highest, self.total):
            state.add(value)


OF_EVERYTHING = [("everything", name) for name in ("value", "list", "map", "highest", "total")]


def says_the_same_live(client: QueryableStateClient, job_id: str, uid: str, state: str) -> bool:
    """Whether state at rest is the same, committed and live, by key and without."""
    keys = list(range(8))
    try:
        by_key, any_ = (
            [client.entries(job_id, operator=uid, state=state, isolation=isolation, **what).entries
             for isolation in get_args(Isolation)]
            for what in ({"keys": keys}, {"limit": 20})
        )  # fmt: skip
    except StateNotFoundError:
        return False
    scanned = [sorted(entries, key=repr) for entries in any_]
    return len(by_key[0]) == 7 == len(any_[0]) and by_key[0] == by_key[1] and scanned[0] == scanned[1]


@pytest.mark.parametrize("backend", first_of(1, ["rocksdb", "hashmap"]))
def test_state_of_a_running_job_is_asked_for_by_key(tmp_path: Path, backend: str) -> None:
    """A user would write a sink and a database to look at one customer; or be told what a restart takes back."""
    settings = {
        "rest.bind-port": "0", "execution.checkpointing.interval": "200 ms", "state.backend.type": backend,
        "execution.checkpointing.dir": str(tmp_path),
    }  # fmt: skip
    env = environment(parallelism=2, settings=settings)
    source = DataGeneratorSource(lambda i: i, 10_000_000, RateLimiterStrategy.per_second(1_000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    keyed = numbers.key_by(lambda n: n % 10, Types.LONG())
    keyed.as_queryable_state("newest")
    keyed.as_queryable_state("highest", ReducingStateDescriptor("highest", max, Types.LONG()))
    keyed.process(Seen()).uid("seen").print()
    at_rest = env.from_collection(list(range(40)), Types.LONG()).set_parallelism(1)
    of_seven = at_rest.key_by(lambda n: n % 7, Types.LONG())
    of_seven.process(Everything()).uid("everything").set_parallelism(1).print().set_parallelism(1)
    of_seven.count_window(100).reduce(max).uid("windows").set_parallelism(1).print().set_parallelism(1)
    job = env.execute_async("queryable")
    try:
        job_id = str(job.get_job_id())
        client, found = QueryableStateClient.of_job(job_id)
        assert found == job_id

        def is_there() -> bool:
            try:
                return client.get_kv_state(job_id, "newest", 7) is not None
            except StateNotFoundError:
                return False

        wait_until(is_there, "there is no answer", 120)
        newest = client.get_kv_states(job_id, "newest", range(12))
        assert 7 in newest and all(value % 10 == key < 10 for key, value in newest.items())
        highest, seen = (client.entries(job_id, name=name, keys=[7]) for name in ("highest", "all seen"))
        values = set(seen.entries[0]["value"])
        assert {value % 10 for value in values} == {7}
        if seen.checkpoint_id == highest.checkpoint_id:
            assert highest.entries[0]["value"] == max(values), "all operators are asked for one moment"
        names = {name for one in client.states(job_id).states for name in one.queryable_names}
        assert names == {"newest", "highest", "all seen"}
        for live in ([], ["--live"]):
            printed = CliRunner().invoke(app, ["query", job_id, "--operator", "seen", "seen", "7", "--json", *live])
            assert printed.exit_code == 0 and json.loads(printed.stdout.splitlines()[0])["key"] == 7, printed.output
        before = client.get_kv_state(job_id, "newest", 7)
        now = client.get_kv_states(job_id, "newest", [3, 7, 12], isolation="read-uncommitted")
        assert now.keys() == {3, 7} and now[7] >= before
        rest = JobRegistry().find(job_id).rest
        assert rest is not None
        over_rest = QueryableStateClient(rest.url, rest.token())
        for one in (client, over_rest):
            with pytest.raises(StateNotFoundError, match="'newest'"):
                one.get_kv_state(job_id, "none", 7, isolation="read-uncommitted")
            with pytest.raises(StateNotFoundError):
                # Not what this job has by that name.
                one.entries("0" * 32, name="newest", keys=[7], isolation="read-uncommitted")
        for uid, state in [*OF_EVERYTHING, ("windows", "(windows) contents")]:
            for one in (client, over_rest):
                wait_until(lambda: says_the_same_live(one, job_id, uid, state), f"{state} is not the same live", 60)  # noqa: B023
    finally:
        job.cancel().result()


class Asked:
    """What a thread is answered that asks for one key of a job, by each isolation, until `stop`."""

    def __init__(self, job_id: str, key: int) -> None:
        self.answers: dict[Isolation, list[int]] = {isolation: [] for isolation in get_args(Isolation)}
        self.refused: Counter[str] = Counter()
        self._job_id, self._key = job_id, key
        self._stopped = threading.Event()
        self._thread = start_thread("asks", self._run, lambda _: None)

    def _run(self) -> None:
        client, _ = QueryableStateClient.of_job(self._job_id)
        while not self._stopped.wait(0.02):
            for isolation, answers in self.answers.items():
                try:
                    answer = client.get_kv_state(self._job_id, "highest", self._key, isolation=isolation)
                    # None: not yet. Once there was a value it may not be gone again.
                    if answer is not None or answers:
                        answers.append(answer)
                except PenstockError as error:
                    # Between two attempts there is no task that could answer, and it says so.
                    self.refused[f"{isolation}: {error}"] += 1

    def goes_on(self) -> None:
        """Wait until both have been answered anew, by values that are higher than all before."""
        before = {isolation: max(answers, default=-1) for isolation, answers in self.answers.items()}
        for isolation, highest in before.items():
            wait_until(
                lambda of=isolation, above=highest: max(self.answers[of], default=-1) > above,
                f"no new answer, {isolation}: {self.refused}", 60,
            )  # fmt: skip

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_is_asked_for_through_rescaling_and_recovery(tmp_path: Path, backend: str) -> None:
    """A dashboard would show state of before, or of another subtask, when a job is rescaled or has lost a worker."""
    settings = {
        "rest.bind-port": "0", "execution.checkpointing.interval": "200 ms", "state.backend.type": backend,
        "execution.checkpointing.dir": str(tmp_path), "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10", "restart-strategy.fixed-delay.delay": "100ms",
    }  # fmt: skip
    env = environment(parallelism=2, settings=settings)
    source = DataGeneratorSource(lambda i: i, 10_000_000, RateLimiterStrategy.per_second(1_000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()).set_parallelism(1)
    keyed = numbers.rebalance().key_by(lambda n: n % 10, Types.LONG())
    keyed.as_queryable_state("highest", ReducingStateDescriptor("highest", max, Types.LONG()))
    job = env.execute_async("queried while it changes")
    asked = Asked(str(job.get_job_id()), key=7)
    try:
        asked.goes_on()
        for parallelism in (4, None, 1, None, 3):
            if parallelism is None:
                os.kill(workers()[0], signal.SIGKILL)
            else:
                job.rescale(parallelism).result()
            asked.goes_on()
    finally:
        asked.stop()
        job.cancel().result()
    committed, live = asked.answers["read-committed"], asked.answers["read-uncommitted"]
    print(f"{backend}: {len(committed)} committed, {len(live)} live answers; {sum(asked.refused.values())} refused")
    assert {value % 10 for value in committed + live} == {7}
    assert committed == sorted(committed), "what is committed is not taken back"
