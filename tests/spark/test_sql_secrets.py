"""A password in the options of a table is nowhere that others may read: all that a job leaves is searched for it."""

from __future__ import annotations

import logging
import urllib.request
from pathlib import Path

import pytest
from tests.spark.jobs import environment, failure_of

from penstock.common.config_options import option
from penstock.common.config_values import TextType
from penstock.common.types import Row
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.engine.checkpoint.storage import read_manifest
from penstock.service.cluster.running_jobs import JobRegistry
from penstock.table import StreamTableEnvironment
from penstock.table.connector import (
    ScanRequest,
    TableConnector,
    TableOptions,
    TableScan,
    register_connector,
    scan_of_rows,
)
from penstock.table.execution.plan_of_job import plan_of_checkpoint
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.spark
PASSWORD = "hunter2-of-this-test"
OPTION = option("password", TextType(), None)
PATHS = ("jobs/overview", "jobs/{}", "jobs/{}/plan", "jobs/{}/config", "jobs/{}/checkpoints", "jobs/{}/exceptions")


class Guarded(TableConnector):
    """Rows of a source that asks for a password, which is sent to the workers with it."""

    def scan(self, request: ScanRequest) -> TableScan:
        options = TableOptions(request.table.identifier, request.options, [OPTION])
        password = options.required(OPTION)
        assert password == PASSWORD, "the connector gets the value, not the reference"
        of_numbers = DataGeneratorSource(
            lambda number: Row(id=number, size=len(password)), 10_000_000, RateLimiterStrategy.per_second(1_000)
        )
        return scan_of_rows(of_numbers, request)


@pytest.fixture(autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


def test_a_password_stays_in_the_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who may see a savepoint, a plan, a log or the web page would have the password of the database."""
    caplog.set_level(logging.DEBUG, logger="penstock")
    register_connector("guarded", Guarded())
    settings = {
        "rest.bind-port": "0", "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }  # fmt: skip
    tables = StreamTableEnvironment.create(environment(parallelism=1, settings=settings))
    created = f"(id BIGINT, size INT) WITH ('connector' = 'guarded', 'password' = '{PASSWORD}'"
    tables.execute_sql(f"CREATE TABLE numbers {created})")
    tables.execute_sql(f"CREATE TABLE misspelled {created}, 'passwrd' = '{PASSWORD}')")
    query = "SELECT MOD(id, 3) AS k, COUNT(*) AS n, MAX(size) AS size FROM numbers GROUP BY MOD(id, 3)"
    tables.execute_sql("CREATE TABLE o (k BIGINT, n BIGINT, size INT) WITH ('connector' = 'blackhole')")
    tables.execute_sql(f"COMPILE PLAN '{tmp_path}/plan.json' FOR INSERT INTO o {query}")

    def told(statement: str) -> str:
        with tables.execute_sql(statement).collect() as rows:
            return "\n".join(map(str, rows))

    texts = {
        "errors": failure_of(lambda: tables.execute_sql("SELECT * FROM misspelled")),
        "EXPLAIN": told(f"EXPLAIN {query}"),
        "SHOW CREATE": told("SHOW CREATE TABLE numbers"),
    }
    assert "no option 'passwrd'" in texts["errors"] and "${secret:" in texts["SHOW CREATE"]
    result = tables.execute_sql(query)
    client = result.get_job_client()
    assert client is not None
    with result.collect() as rows:
        assert next(rows)[2] == len(PASSWORD)
        job_id = str(client.get_job_id())
        rest = JobRegistry().find(job_id).rest
        assert rest is not None
        for path in PATHS:
            url = f"{rest.url}/{path.format(job_id)}"
            request = urllib.request.Request(url, headers={"Authorization": f"Bearer {rest.token()}"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                texts[url] = answer.read().decode()
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    # It is deflated in the file.
    plan = plan_of_checkpoint(read_manifest(savepoint))
    assert plan is not None
    texts["plan of the savepoint"] = plan.text
    assert PASSWORD not in caplog.text
    for place, text in texts.items():
        assert text and PASSWORD not in text, place
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.relative_to(tmp_path).parts[0] for file in files} >= {"plan.json", "savepoints", "checkpoints"}
    for file in files:
        assert PASSWORD.encode() not in file.read_bytes(), file
