"""Jobs from and to Redis: the programs of the page, beside a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.snippets import PROGRAMS

from penstock.cli.options import program_context
from penstock.cli.script import run_script
from penstock.common.errors import ConfigurationError
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
