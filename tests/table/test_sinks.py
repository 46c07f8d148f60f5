"""What is done with rows before they are written: constraints, primary keys, event times."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.table.listed_tables import Change, Tables, inserts
from tests.table.table_tests import SMALL, at, crashing, need_planner

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common.columns.record_columns import RecordColumns
from penstock.hosts.simulator import Circumstances
from penstock.table.connectors.table_connector import SinkRequest, TableConnector, TableSink, register_connector
from penstock.table.planner.errors import SqlError, UnsupportedPlanError

LENGTH, NESTED = "table.exec.sink.type-length-enforcer", "table.exec.sink.nested-constraint-enforcer"


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def test_lengths_of_texts_and_bytes() -> None:
    """Characters count, not bytes; CHAR and BINARY are filled up, the others only cut."""
    rows = [("Zürich", "Zürich", b"\x01\x02\x03", b"\x01"), (None, "", b"", None), ("Ü", "Ür", b"\x01", b"\x01\x02")]
    columns = "c CHAR(2), v VARCHAR(4), b BINARY(2), w VARBINARY(1)"
    query = "SELECT * FROM t"
    found = []
    for choice in ("TRIM_PAD", "IGNORE"):
        tables = Tables({LENGTH: choice})
        tables.create("t", columns, inserts(rows))
        found.append([row for _, row in tables.insert("o", columns, query)])
    fitted = [("Zü", "Züri", b"\x01\x02", b"\x01"), (None, "", b"\0\0", None), ("Ü ", "Ür", b"\x01\0", b"\x01")]
    assert Counter(found[0]) == Counter(fitted)
    assert Counter(found[1]) == Counter(rows)
    tables = Tables({LENGTH: "ERROR"})
    tables.create("t", columns, inserts([("ab", "Zürich", b"\0\0", b"")]))
    with pytest.raises(Exception, match=r"Column 'v' is VARCHAR\(4\).*a string of length 6.*row \{'c': 'ab'"):
        tables.insert("o", columns, query)


def test_constraints_within_rows_and_collections() -> None:
    """The error names the path of the value; what trimming can't reach is refused at submission."""
    row = "a ROW<id INT NOT NULL, ab ARRAY<ROW<c CHAR(2) NOT NULL> NOT NULL>>"
    rows = [({"id": 1, "ab": [{"c": "ab"}, {"c": "abc"}]},)]
    tables = Tables({LENGTH: "ERROR", NESTED: "ROWS_AND_COLLECTIONS"})
    tables.create("t", row, inserts(rows))
    with pytest.raises(Exception, match=r"Column 'a\.ab\[1\]\.c' is CHAR\(2\).*of length 3"):
        tables.insert("o", row, "SELECT a FROM t")
    tables = Tables({LENGTH: "TRIM_PAD", NESTED: "ROWS_AND_COLLECTIONS"})
    tables.create("t", row, inserts(rows))
    with pytest.raises(SqlError, match="Trimming and/or padding is not supported"):
        tables.insert("o", row, "SELECT a FROM t")


def test_a_choice_that_an_option_does_not_have() -> None:
    """A misspelt option would be taken for another choice: `ERROR` checked rows, and no arrays."""
    tables = Tables({NESTED: "ERROR"})
    tables.create("t", "a INT", inserts([(1,)]))
    with pytest.raises(SqlError, match="nested-constraint-enforcer is 'ERROR': expected one of IGNORE, ROWS, ROWS_AND"):
        tables.insert("o", "a INT", "SELECT a FROM t")


def keyed(changes: list[Change], width: int) -> dict[Any, Any]:
    """Return the table that a sink has which replaces rows by their first columns. A deletion must find its row."""
    table: dict[Any, Any] = {}
    for kind, row in changes:
        assert kind != "-U"
        if kind == "-D":
            del table[row[:width]]
        else:
            assert (kind == "+U") is (row[:width] in table), f"{kind}{row}"
            table[row[:width]] = row
    return table


@pytest.mark.parametrize("circumstances", [SMALL, *crashing()])
def test_rows_of_one_primary_key_from_several_subtasks(circumstances: Circumstances) -> None:
    """The sink has the last row of a key that is still there, although retractions come from elsewhere, and late."""
    random = Random(8)
    changes: list[Change] = []
    there: dict[int, tuple[int, int, int]] = {}
    for number in range(60):
        id = random.randrange(12)
        if id in there:
            changes.append(("-U", there[id]))
            there[id] = (id, random.randrange(4), number)
            changes.append(("+U", there[id]))
        else:
            there[id] = (id, random.randrange(4), number)
            changes.append(("+I", there[id]))
    options = {"table.exec.sink.require-on-conflict": "false"}
    tables = Tables(options, circumstances=circumstances)
    tables.create("t", "id INT PRIMARY KEY NOT ENFORCED, k INT, n INT", changes, changelog="I,UB,UA,D")
    columns = "k INT PRIMARY KEY NOT ENFORCED, id INT, n INT"
    tables.environment.execute_sql(
        f"CREATE TABLE o ({columns}) WITH ('connector' = 'listed', 'sink-changelog-mode-enforced' = 'I,UA,D')"
    )
    query = "SELECT k, id, MAX(n) FROM t GROUP BY k, id"
    tables.environment.execute_sql(f"INSERT INTO o {query}")
    assert tables.executor.error is None
    found = keyed(tables.listed.sinks["o"], 1)
    remaining = {(k, id, n) for id, k, n in there.values()}
    assert set(found) == {(k,) for k, _, _ in remaining}
    assert set(found.values()) <= remaining


@pytest.mark.parametrize("circumstances", [SMALL, *crashing()])
def test_conflicts_of_primary_keys(circumstances: Circumstances) -> None:
    """ON CONFLICT DO NOTHING keeps the first row of a key, DO ERROR names both rows."""
    rows = [(number % 7, number, at(number)) for number in range(40)]
    for action in ("NOTHING", "ERROR"):
        if action == "ERROR" and circumstances is not SMALL:
            # It would fail again after each restart.
            continue
        tables = Tables(circumstances=circumstances)
        timed = "k INT, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND"
        tables.create("t", timed, inserts(rows))
        options = "'connector' = 'listed', 'sink-changelog-mode-enforced' = 'I,UA,D'"
        tables.environment.execute_sql(f"CREATE TABLE o (k INT PRIMARY KEY NOT ENFORCED, n INT) WITH ({options})")
        tables.environment.execute_sql(f"INSERT INTO o SELECT k, n FROM t ON CONFLICT DO {action}")
        if action == "NOTHING":
            assert tables.executor.error is None
            assert Counter(tables.listed.sinks["o"]) == Counter(inserts([(number, number) for number in range(7)]))
        else:
            assert "several rows have the primary key" in str(tables.executor.error)


class _Times(TableConnector):
    """Remembers the timestamps of the rows that it gets."""

    def sink(self, request: SinkRequest) -> TableSink:
        """Return a sink that takes columns."""
        return TableSink(_TimesSink())


class _TimesSink(Sink[Any]):
    found: list[Any]

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Return a writer."""
        return _TimesWriter()

    def takes_columns(self, columns: RecordColumns) -> bool:
        return True


SEEN: list[int | None] = []


class _TimesWriter(SinkWriter[Any]):
    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        SEEN.extend([None] * batch.num_rows if timestamps is None else timestamps.tolist())

    def write(self, value: Any, timestamp: int | None) -> None:
        raise AssertionError("columns are written")


def test_event_times_of_rows_that_are_written() -> None:
    """A sink that writes timestamps, as Kafka does, gets those of the rowtime attribute, unless that is disabled."""
    register_connector("times", _Times())
    for options, expected in (
        ({}, [at(number) for number in range(3)]),
        ({"table.exec.sink.rowtime-inserter": "DISABLED"}, []),
    ):
        SEEN.clear()
        tables = Tables(options)
        tables.create("t", "n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", inserts([(n, at(n)) for n in range(3)]))
        tables.environment.execute_sql("CREATE TABLE o (n INT, ts TIMESTAMP(3)) WITH ('connector' = 'times')")
        tables.environment.execute_sql("INSERT INTO o SELECT n, ts FROM t")
        assert tables.executor.error is None
        milliseconds = [int((one - at(0)).total_seconds() * 1000) + 1_704_067_200_000 for one in expected]
        assert (milliseconds or [None] * 3) == SEEN


def test_what_a_connector_does_not_write() -> None:
    """INSERT OVERWRITE, partitions and metadata are refused by name where the connector does not heed them."""
    tables = Tables()
    tables.create("t", "n INT", inserts([(1,)]))
    tables.environment.execute_sql("CREATE TABLE o (n INT) WITH ('connector' = 'listed')")
    with pytest.raises(UnsupportedPlanError, match="Overwrite is not supported by the connector"):
        tables.environment.execute_sql("INSERT OVERWRITE o SELECT n FROM t")
