"""What `penstock sql` starts before it plans."""

from __future__ import annotations

import importlib.util

import pytest

from penstock.service.cli.early_start import needs_session
from penstock.service.cli.sql import keep_planner
from penstock.table.operators.worker_modules import WORKER_MODULES


@pytest.mark.parametrize(
    ("script", "needs"),
    [
        ("SELECT 1", True),
        ("-- a comment\n  (SELECT 1)", True),
        ("CREATE TABLE t (n INT) WITH ('connector' = 'x'); INSERT INTO t VALUES (1)", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a", True),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (1); END;", True),
        ("BEGIN STATEMENT SET; INSERT INTO t VALUES (1); END;", True),
        ("COMPILE AND EXECUTE PLAN 'p.json' FOR INSERT INTO t VALUES (1)", True),
        ("EXECUTE PLAN 'p.json'", True),
        ("SHOW TABLES; EXPLAIN SELECT 1; DESCRIBE t", False),
        ("COMPILE PLAN 'p.json' FOR INSERT INTO t VALUES (1)", False),
        ("CREATE VIEW v AS SELECT 1", False),
        ("SET 'parallelism.default' = '2'; SELECT 1", True),
        ("SET 'spark.driver.memory' = '8g'; SELECT 1", False),
        ("SET 'execution.target' = 'remote'; SELECT 1", False),
        ("", False),
    ],
)
def test_spark_starts_early_for_statements_that_need_it(script: str, needs: bool) -> None:
    """SHOW TABLES would start Spark; or a session would start that the script's own settings replace."""
    assert needs_session([script]) is needs
    assert needs_session(["SHOW TABLES", script]) is needs


@pytest.mark.parametrize("name", WORKER_MODULES)
def test_the_modules_that_workers_of_sql_have_exist(name: str) -> None:
    """Each worker would import what was renamed."""
    assert importlib.util.find_spec(name) is not None


@pytest.mark.parametrize(("settings", "variable"), [({"penstock.spark.keep-session": "TRUE"}, "true"), ({}, "false")])
def test_the_planner_is_kept_if_sparks_jvm_is(settings: dict[str, str], variable: str) -> None:
    """With the setting in a file, each command would start a planner, and find none of the command before."""
    environ = {"PENSTOCK_KEEP_SESSION": "false"}
    keep_planner(settings, environ)
    assert environ == {"PENSTOCK_KEEP_SESSION": variable}
