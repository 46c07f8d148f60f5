"""Jobs from and to PostgreSQL: the programs of the page, beside a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connectors.postgres_tables import Tables
from tests.snippets import PROGRAMS

from penstock.cli.options import program_context
from penstock.cli.script import run_script
from penstock.common.errors import ConfigurationError
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
    guarantee = ".set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)"
    (program,) = [one.program for one in PROGRAMS if one.page == "postgres" and guarantee in one.program]
    program = program.replace(guarantee, f"{guarantee}\n    .set_write_ahead_log(True)")
    with PostgresServer(prepared_transactions=0) as server:
        tables = Tables(server.url)
        tables.execute("CREATE TABLE delays (airport text, delay int)")
        Path("job.py").write_text(program.replace(IN_PAGE, server.url))
        with program_context({"execution.runtime-mode": "STREAMING"}):
            run_script(Path("job.py"), [])
        assert tables.rows("delays") == [("EWR", 12)]
        assert tables.execute("SELECT count(*) FROM penstock_batches") == [(1,)]
        tables.connection.close()
