"""State of a running job, asked for from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import environment, wait_until
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.common import Types, WatermarkStrategy
from penstock.common.errors import StateNotFoundError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.queryable_state import QueryableStateClient
from penstock.datastream.state import MapStateDescriptor, ReducingStateDescriptor

pytestmark = pytest.mark.spark


class Seen(KeyedProcessFunction[int, int, int]):
    """Keeps each value of a key in a map."""

    def open(self, runtime_context: Any) -> None:
        descriptor = MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN())
        descriptor.set_queryable("all seen")
        self.seen = runtime_context.get_map_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.put(value, True)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
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
        printed = CliRunner().invoke(app, ["query", job_id, "--operator", "seen", "seen", "7", "--json"])
        assert printed.exit_code == 0 and json.loads(printed.stdout.splitlines()[0])["key"] == 7, printed.output
    finally:
        job.cancel().result()
