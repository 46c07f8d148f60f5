"""What plans leave to sources: conditions, partitions and watermarks, which penstock's own planner does not always."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from tests.table.listed_tables import Change, Tables, inserts
from tests.table.table_tests import SMALL, at, need_planner

from penstock.table.connectors.table_connector import ScanRequest, TableScan
from penstock.table.planner.errors import UnsupportedPlanError

FOUR = [(1, "a", 10), (2, "b", 20), (3, "a", 30), (4, None, 40)]


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def ran(tables: Tables, file: Path, query: str, abilities: list[dict[str, Any]], node: str = "scan") -> list[Change]:
    """Return what the plan of a query gives if the source of its table has these abilities, too, before others."""
    tables.environment.execute_sql(f"COMPILE PLAN '{file}' FOR INSERT INTO o {query}")
    plan = json.loads(file.read_text())
    (source,) = [
        spec
        for one in plan["nodes"]
        for spec in [
            one.get("scanTableSource") if node == "scan" else (one.get("temporalTable") or {}).get("lookupTableSource")
        ]
        if spec
    ]
    source["abilities"] = [*abilities, *source.get("abilities", [])]
    file.write_text(json.dumps(plan))
    tables.environment.execute_sql(f"EXECUTE PLAN '{file}'")
    if tables.executor.error is not None:
        raise tables.executor.error
    return tables.listed.sinks["o"]


def above(place: int, number: int) -> dict[str, Any]:
    """Return the condition that a column of the type INT is greater than a number."""
    operands = [
        {"kind": "INPUT_REF", "inputIndex": place, "type": "INT"},
        {"kind": "LITERAL", "value": number, "type": "INT NOT NULL"},
    ]
    call = {"kind": "CALL", "syntax": "BINARY", "internalName": "$>$1", "operands": operands, "type": "BOOLEAN"}
    return {"type": "FilterPushDown", "predicates": [call]}


def listed(columns: str = "id INT, name STRING") -> Tables:
    tables = Tables(circumstances=SMALL)
    tables.create("t", "id INT, name STRING, n INT", inserts(FOUR))
    tables.create("o", columns)
    return tables


def test_a_condition_that_a_plan_leaves_to_a_source(tmp_path: Path) -> None:
    """All rows would pass: the plan has no other condition. Not all of its columns are read otherwise."""
    tables = listed()
    found = ran(tables, tmp_path / "p.json", "SELECT id, name FROM t", [above(2, 10), above(0, 2)])
    assert found == inserts([(3, "a"), (4, None)])


def test_partitions_that_a_plan_leaves_to_a_source(tmp_path: Path) -> None:
    """Values of partitions are texts; one of them has to fit, in all of its columns."""
    partitions = [{"n": "10", "name": "a"}, {"n": "30", "name": "b"}, {"n": "30", "name": "a"}]
    tables = listed()
    ability = {"type": "PartitionPushDown", "partitions": partitions}
    assert ran(tables, tmp_path / "p.json", "SELECT id, name FROM t", [ability]) == inserts([(1, "a"), (3, "a")])


@pytest.mark.parametrize("columns", ["c.name", "c.id, c.name"])
def test_a_condition_that_a_plan_leaves_to_a_lookup(tmp_path: Path, columns: str) -> None:
    """Rows that the source should not have given would be joined."""
    tables = listed("k INT, name STRING" if columns == "c.name" else "k INT, id INT, name STRING")
    tables.create("s", "k INT, p AS PROCTIME()", inserts([(1,), (3,)]))
    query = f"SELECT s.k, {columns} FROM s LEFT JOIN t FOR SYSTEM_TIME AS OF s.p AS c ON s.k = c.id"
    found = ran(tables, tmp_path / "p.json", query, [above(2, 10)], node="lookup")
    first, other = ((1, None), (3, "a")) if columns == "c.name" else ((1, None, None), (3, 3, "a"))
    assert sorted(found) == inserts([first, other])


def test_watermarks_that_a_source_does_not_have() -> None:
    """Windows would never end."""
    tables = Tables()
    tables.create("t", "id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()")
    with pytest.raises(UnsupportedPlanError, match="asks for watermarks of the connector, which does not give any"):
        tables.insert("o", "id INT", "SELECT id FROM t")


def test_each_row_can_emit_its_watermark() -> None:
    """A row would read the watermark of its chunk, not that of the row before it."""
    rows = [(number, at(second)) for number, second in enumerate([0, 5, 3, 5, 9])]
    tables = Tables(circumstances=SMALL, parallelism=1)
    declared = "id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    tables.create("t", declared, inserts(rows), options=", 'scan.watermark.emit.strategy' = 'on-event'")
    found = tables.insert("o", "id INT, w TIMESTAMP(3)", "SELECT id, CURRENT_WATERMARK(ts) FROM t")
    assert found == inserts([(0, None), (1, at(-1)), (2, at(4)), (3, at(4)), (4, at(4))])


@pytest.mark.parametrize("mini_batch", ["false", "true"])
def test_fields_of_rows_that_nothing_reads_are_not_asked_for(mini_batch: str) -> None:
    """The planner asks for a whole row; what lets rows pass, as the ends of bundles do, reads none of its fields."""
    tables = Tables(
        {
            "table.exec.mini-batch.enabled": mini_batch,
            "table.exec.mini-batch.allow-latency": "1 s",
            "table.exec.mini-batch.size": "10",
        },
        circumstances=SMALL,
    )
    asked: list[pyarrow.Schema] = []
    scan = tables.listed.scan

    def asking(request: ScanRequest) -> TableScan:
        asked.append(request.schema)
        return scan(request)

    tables.listed.scan = asking  # type: ignore[method-assign]
    columns = "kind INT, p ROW<a INT, s STRING, u TIMESTAMP(3)>, q ROW<b INT, t STRING, v TIMESTAMP(3)>"
    time = "ts AS CASE kind WHEN 0 THEN p.u ELSE q.v END, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    at_0 = datetime(1970, 1, 1)
    tables.create("t", f"{columns}, {time}", inserts([(0, {"a": 7, "u": at_0}, None), (1, None, {"b": 5, "v": at_0})]))
    tables.environment.execute_sql("CREATE VIEW w AS SELECT q.b, q.t, ts FROM t WHERE kind = 1")
    changes = tables.insert("o", "b INT, n BIGINT", "SELECT b, COUNT(*) FROM w GROUP BY b")
    assert changes == [("+I", (5, 1))]
    names = {field.name: [one.name for one in field.type] for field in asked[0] if pyarrow.types.is_struct(field.type)}
    assert names == {"p": ["u"], "q": ["b", "v"]}
