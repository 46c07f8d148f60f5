"""Jobs from and to PostgreSQL: the programs of the page, beside a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connectors.postgres_tables import Tables
from tests.snippets import PROGRAMS
from tests.spark.jobs import STREAMING, collect, environment, lines_to, no_worker_left, wait_until_running
from tests.spark.test_lost_workers import CountsAndDies, killed, visible
from tests.spark.test_recovery import NONE, Slowly, settings
from tests.spark.test_rescaling import KEYS, RECORDS, Counts

from penstock.common import WatermarkStrategy
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.service.cli.options import program_context
from penstock.service.cli.script import run_script
from penstock.testing.postgres_server import PostgresServer, server_programs

pytestmark = [pytest.mark.spark, pytest.mark.connectors]
IN_PAGE = "postgresql://localhost:5432/postgres"


@pytest.fixture
def tables() -> Iterator[Tables]:
    try:
        server_programs()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with PostgresServer() as server:
        tables = Tables(server.url)
        yield tables
        tables.connection.close()


def test_the_programs_of_the_page(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing that a newcomer pastes would fail."""
    tables.execute("CREATE TABLE delays (airport text PRIMARY KEY, delay int)")
    monkeypatch.chdir(tmp_path)
    programs = [snippet.program for snippet in PROGRAMS if snippet.page == "postgres"]
    assert len(programs) > 2
    for number, program in enumerate(programs):
        Path(f"job{number}.py").write_text(program.replace(IN_PAGE, tables.url))
        with program_context({"execution.runtime-mode": "STREAMING"}):
            run_script(Path(f"job{number}.py"), [])

    assert tables.rows("delays") == [("EWR", 12), ("JFK", 90), ("LGA", 5)]
    printed = capsys.readouterr().out
    assert "Row(airport='JFK', delay=90)" in printed
    assert "({'from': 'LGA'}, Row(delay=5))" in printed and "({'from': 'ORD'}, None)" in printed
    assert "ChangeKind.INSERT None {'airport': 'EWR', 'delay': 12}" in printed and "[('delays', " in printed
    assert not tables.execute("SELECT gid FROM pg_prepared_xacts")
    assert not tables.execute("SELECT FROM pg_replication_slots")


def test_exactly_once_without_prepared_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the last checkpoint would stay in the log, or none ever come to the table."""
    monkeypatch.chdir(tmp_path)
    guarantee = "delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,"
    (program,) = [one.program for one in PROGRAMS if one.page == "postgres" and guarantee in one.program]
    program = program.replace(guarantee, f"{guarantee}\n    write_ahead_log=True,")
    with PostgresServer(prepared_transactions=0) as server:
        tables = Tables(server.url)
        tables.execute("CREATE TABLE delays (airport text, delay int)")
        Path("job.py").write_text(program.replace(IN_PAGE, server.url))
        with program_context({"execution.runtime-mode": "STREAMING"}):
            run_script(Path("job.py"), [])
        assert tables.rows("delays") == [("EWR", 12)]
        assert tables.execute("SELECT count(*) FROM penstock_batches") == [(1,)]
        tables.connection.close()


def in_postgres(tables: Tables) -> dict[str, str]:
    place = tables.url.partition("@")[2]
    return {
        "state.backend.type": "postgres",
        "state.backend.postgres.url": f"postgresql://{place}",
        "state.backend.postgres.user": "penstock",
        "state.backend.postgres.password": "penstock",
        "state.backend.postgres.cached-entries": "10",
    }


def entries_left(tables: Tables) -> int:
    return int(tables.execute("SELECT count(*) FROM penstock_entries")[0][0])


def test_workers_killed_while_their_state_is_in_it(tables: Tables, tmp_path: Path) -> None:
    """What a worker wrote behind the last checkpoint would count, or what it had in memory would be lost."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    env = environment(STREAMING, 2, settings(tmp_path, **in_postgres(tables)))
    numbers = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(Slowly())
    collected = collect(numbers.key_by(lambda v: v % 50).process(CountsAndDies(deaths)))

    assert killed(deaths) == ["CountsAndDies-0", "CountsAndDies-1"]
    assert sorted(value for _, _, value in collected) == [*range(10_000)]
    for key in range(50):
        assert sorted(count for k, count, _ in collected if k == key) == [*range(1, 201)]
    assert entries_left(tables) == 0, "a job that has ended well leaves no state"
    no_worker_left()


@pytest.mark.soak
def test_more_subtasks_share_what_is_in_it(tables: Tables, tmp_path: Path) -> None:
    """A job could not be rescaled, or would count some records twice."""
    env = environment(STREAMING, 2, settings(tmp_path, **in_postgres(tables)))
    source = DataGeneratorSource(lambda n: n, RECORDS, RateLimiterStrategy.per_second(6_000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % KEYS).process(Counts()).name("counts").sink_to(lines_to(tmp_path / "out"))
    client = env.execute_async("scaled")
    wait_until_running(client)
    client.rescale(3).result()
    client.get_job_execution_result().result()

    lines = [line for path in visible(tmp_path / "out") for line in path.read_text().splitlines()]
    counts = Counter(line.partition(",")[0] for line in lines)
    assert len(lines) == len(set(lines)) == RECORDS and set(counts.values()) == {RECORDS // KEYS}
    assert client.get_num_restarts() == 0
    no_worker_left()
