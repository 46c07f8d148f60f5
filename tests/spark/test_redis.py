"""Jobs from and to Redis: the programs of the page, beside a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.snippets import PROGRAMS
from tests.spark.jobs import STREAMING, environment, no_worker_left
from tests.spark.test_lost_workers import CountsAndDies, killed
from tests.spark.test_recovery import NONE, Slowly, settings

from penstock.common.errors import ConfigurationError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.service.cli.options import program_context
from penstock.service.cli.script import run_script
from penstock.testing.redis_server import RedisServer, server_program

pytestmark = [pytest.mark.spark, pytest.mark.connectors]
IN_PAGE = "redis://localhost:6379/0"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    try:
        server_program()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with RedisServer() as server:
        yield server


def test_the_programs_of_the_page(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing that a newcomer pastes would fail."""
    monkeypatch.chdir(tmp_path)
    programs = [snippet.program for snippet in PROGRAMS if snippet.page == "redis"]
    assert len(programs) > 3
    for number, program in enumerate(programs):
        Path(f"job{number}.py").write_text(program.replace(IN_PAGE, server.url))
        with program_context({"execution.runtime-mode": "STREAMING"}):
            run_script(Path(f"job{number}.py"), [])

    client = redis.Redis.from_url(server.url, protocol=2, decode_responses=True)
    assert client.hgetall("airport:JFK") == {"airport": "JFK", "delay": "90"}
    assert client.get("minutes") == "95" and sorted(client.lrange("airports", 0, -1)) == ["JFK", "LGA"]
    printed = capsys.readouterr().out
    assert "{'airport': 'ORD', 'delay': '75'}" in printed and "EWR" not in printed
    assert "({'from': 'LGA'}, {'delay': '5'})" in printed and "({'from': 'ORD'}, None)" in printed
    assert {key.rpartition("/")[2] for key in client.scan_iter("penstock/*")} == {"applied"}
    client.close()


def state_in_redis(server: RedisServer) -> dict[str, str]:
    """Settings of a job whose keyed state is in that server."""
    user, _, place = server.url.removeprefix("redis://").partition("@")
    name, _, password = user.partition(":")
    return {
        "state.backend.type": "redis",
        "state.backend.redis.url": f"redis://{place}",
        "state.backend.redis.user": name,
        "state.backend.redis.password": password,
        "state.backend.redis.cached-entries": "10",
    }


def test_workers_and_the_server_are_killed_while_state_is_in_it(server: RedisServer, tmp_path: Path) -> None:
    """What a worker had in its log would be lost, or what was applied of it would count twice."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    env = environment(STREAMING, 2, settings(tmp_path, **state_in_redis(server)))
    numbers = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(Slowly())
    client = redis.Redis.from_url(server.url, protocol=2)
    with numbers.key_by(lambda v: v % 50).process(CountsAndDies(deaths)).execute_and_collect() as values:
        # The first ones come with a checkpoint: its log is applied about now.
        collected = [next(values)]
        server.kill()
        server.start()
        assert any(client.scan_iter("penstock/state/*"))
        collected += values

    assert killed(deaths) == ["CountsAndDies-0", "CountsAndDies-1"]
    assert sorted(value for _, _, value in collected) == [*range(10_000)]
    for key in range(50):
        assert sorted(count for k, count, _ in collected if k == key) == [*range(1, 201)]
    assert not any(client.scan_iter("penstock/state/*")), "a job that has ended well leaves no state"
    client.close()
    no_worker_left()
