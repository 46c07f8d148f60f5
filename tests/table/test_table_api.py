"""The Table API: what it composes, against plain Python over the same rows, and its errors.

The planner's jars are fetched the first time. Where neither they nor Java can be had, these tests are skipped.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest
from tests.table.listed_tables import Tables, inserts

from penstock.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    Table,
    TableDescriptor,
    TableEnvironment,
)
from penstock.table.expression import Expression, JsonValueOnEmptyOrError, TimeIntervalUnit, TimePointUnit
from penstock.table.expressions import (
    array,
    call_sql,
    coalesce,
    col,
    concat,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    or_,
    row,
    timestamp_diff,
    to_timestamp_ltz,
)
from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import shared_process
from penstock.table.udf import udf, udtf
from penstock.table.window import Over, Slide, Tumble

ROWS = [(1, "a", 2.5), (2, "b", None), (3, "a", 7.0), (4, None, 1.0), (5, "b", 0.5)]


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables()


@pytest.fixture
def t(tables: Tables) -> Table:
    """Columns id, name and value."""
    return tables.environment.from_elements(ROWS, ["id", "name", "value"])


def values(table: Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table, without an order."""
    columns = table.to_arrow().to_pydict()
    found = list(zip(*columns.values(), strict=True)) if columns else []
    return sorted(found, key=repr)


def same(table: Table, expected: list[tuple[Any, ...]]) -> bool:
    """Return whether a table has these rows."""
    return values(table) == sorted(expected, key=repr)


def test_importing_and_composing_start_nothing() -> None:
    """A program that only describes its tables would wait for a JVM, and one that imports the module, for columns."""
    program = """
import sys
before = set(sys.modules)
import penstock.table
assert not {"concurrent.futures", "importlib.abc", "penstock.common.configuration"} & set(sys.modules) - before
from penstock.table import EnvironmentSettings, TableEnvironment, DataTypes, Schema, TableDescriptor
assert "pyarrow" not in sys.modules, "columns"
from penstock.table.expressions import col
tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t = tables.from_elements([(1, "a")], ["id", "name"]).where(col("id") > 0).group_by(col("name")).select(col("id").sum)
u = tables.from_path("nowhere").join(t, col("x") == col("EXPR$0")).order_by(col("x")).limit(3)
repr(t), repr(u)
assert tables._planner is None
assert "penstock.table.planner.planner" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_columns_are_selected_named_added_replaced_and_dropped(t: Table) -> None:
    """Columns would be others, in another order, or have other names than in Flink."""
    assert t.select(t.id, t.id + 1, t.name.alias("n"), "value").get_schema().get_field_names() == [
        "id", "_c0", "n", "value",
    ]  # fmt: skip
    assert same(t.select(col("*"), t.id * 2), [(*one, one[0] * 2) for one in ROWS])
    assert t.alias("x", "y").get_schema().get_field_names() == ["x", "y", "value"]
    assert t.rename_columns(col("name").alias("n")).get_schema().get_field_names() == ["id", "n", "value"]
    assert same(t.drop_columns(t.name, t.value), [(one[0],) for one in ROWS])
    assert same(t.add_columns((t.id % 2).alias("odd")), [(*one, one[0] % 2) for one in ROWS])
    replaced = t.add_or_replace_columns((t.id + 1).alias("id"), lit("x").alias("new"))
    assert same(replaced, [(one[0] + 1, one[1], one[2], "x") for one in ROWS])


def test_rows_are_filtered_and_made_distinct(t: Table) -> None:
    """A condition would keep other rows."""
    assert same(t.where((t.id > 1) & (t.name == "a")), [ROWS[2]])
    assert same(t.filter(~(t.name == "a")), [one for one in ROWS if one[1] != "a"])
    assert same(t.where(or_(t.id == 1, t.name.is_null, t.value.between(0.4, 0.6))), [ROWS[0], ROWS[3], ROWS[4]])
    assert same(t.where(t.id.in_(2, 4)), [ROWS[1], ROWS[3]])
    assert same(t.select(t.name).distinct(), [("a",), ("b",), (None,)])


def test_groups(t: Table) -> None:
    """Aggregates would be those of other groups."""
    found = t.group_by(t.name).select(
        t.name, t.id.count, t.id.sum.alias("s"), t.value.max, t.id.avg, (t.id.max - t.id.min).alias("d")
    )
    expected = [("a", 2, 4, 7.0, 2, 2), ("b", 2, 7, 0.5, 3, 3), (None, 1, 4, 1.0, 4, 0)]
    assert same(found, expected)
    assert found.get_schema().get_field_names() == ["name", "EXPR$0", "s", "EXPR$1", "EXPR$2", "d"]
    assert same(t.select(t.name.count.distinct, t.id.sum), [(2, 15)])
    assert same(t.group_by((t.id % 2).alias("odd")).select(col("odd"), lit(1).count), [(0, 2), (1, 3)])
    assert same(t.select(t.id.sum0, t.name.count), [(15, 4)])


JOINS: dict[str, Callable[[Table, Table], Table]] = {
    "inner": lambda t, u: t.join(u, t.id == u.key),
    "left": lambda t, u: t.left_outer_join(u, t.id == u.key),
    "right": lambda t, u: t.right_outer_join(u, t.id == u.key),
    "full": lambda t, u: t.full_outer_join(u, t.id == u.key),
}


@pytest.mark.parametrize("kind", JOINS)
def test_joins(tables: Tables, t: Table, kind: str) -> None:
    """A join of one kind would be one of another."""
    other = [(2, "two"), (4, "four"), (9, "nine")]
    u = tables.environment.from_elements(other, ["key", "text"])
    expected = [(*a, *b) for a in ROWS for b in other if a[0] == b[0]]
    if kind in ("left", "full"):
        expected += [(*a, None, None) for a in ROWS if a[0] not in (2, 4)]
    if kind in ("right", "full"):
        expected.append((None, None, None, 9, "nine"))
    assert same(JOINS[kind](t, u), expected)


def test_tables_are_combined(t: Table) -> None:
    """Rows of one of the tables would be missing, or there twice."""
    a, b = t.where(t.id < 4).select(t.name), t.where(t.id > 1).select(t.name)
    names = [[one[1] for one in ROWS if one[0] < 4], [one[1] for one in ROWS if one[0] > 1]]
    assert same(a.union_all(b), [(name,) for name in names[0] + names[1]])
    assert same(a.union(b), [(name,) for name in {*names[0], *names[1]}])
    assert same(t.where(t.id.in_(2, 3)).select(t.id), [(2,), (3,)])


def test_the_first_rows(t: Table) -> None:
    """Other rows than the first would be returned."""
    assert same(t.order_by(t.id.desc).limit(2), [ROWS[4], ROWS[3]])
    assert same(t.order_by(t.name.asc, t.id.desc).limit(1), [ROWS[3]])
    assert len(values(t.limit(3))) == 3
    assert same(t.order_by(t.id).offset(1).fetch(2).select(t.id), [(2,), (3,)])
    assert "ORDER BY" not in repr(t.limit(3).limit(2))
    assert repr(t.order_by(t.id).limit(3).limit(2)).count("FETCH NEXT") == 2


def test_functions_of_rows(t: Table) -> None:
    """map and flat_map would not pass the whole row, or not spread their results over columns."""
    fields = [DataTypes.FIELD("twice", DataTypes.BIGINT()), DataTypes.FIELD("text", DataTypes.STRING())]

    @udf(result_type=DataTypes.ROW(fields))
    def of_row(one: Any) -> Any:
        return one.id * 2, f"{one.name}!"

    @udf(result_type=DataTypes.ROW(fields), func_type="pandas")
    def of_frame(frame: Any) -> Any:
        return pandas.DataFrame({"twice": frame["id"] * 2, "text": frame["id"].map(str)})

    @udtf(result_types=[DataTypes.BIGINT(), DataTypes.STRING()])
    def repeat(one: Any) -> Any:
        for _ in range(one[0] - 3):
            yield one.id, one.name

    expected = [(one[0] * 2, f"{one[1]}!") for one in ROWS]
    assert same(t.map(of_row), expected)
    assert same(t.map(of_frame), [(one[0] * 2, str(one[0])) for one in ROWS])
    assert t.map(of_row).get_schema().get_field_names() == ["twice", "text"]
    assert same(t.flat_map(repeat).alias("a", "b"), [(4, None), (5, "b"), (5, "b")])
    assert same(t.map(udf(lambda v: v + 1, result_type="BIGINT")(t.id)), [(one[0] + 1,) for one in ROWS])
    lateral = t.left_outer_join_lateral(repeat.alias("a", "b")).select(t.id, col("a"))
    assert same(lateral, [(1, None), (2, None), (3, None), (4, 4), (5, 5), (5, 5)])


EXPRESSIONS: dict[str, tuple[Expression, Any]] = {
    "arithmetic": ((col("i") + 3) * 2 - 7 / lit(2.0), 20 - 3.5),
    "reversed": (10 - col("i"), 3),
    "remainder": (col("i") % 4, 3),
    "power": (lit(2) ** 3, 8.0),
    "negative": (abs(-col("i")), 7),
    "texts": ("<" + col("s").upper_case + ">", "<ABC>"),
    "quotes": (lit("it's `quoted` {0} \\n"), "it's `quoted` {0} \\n"),
    "substring": (col("s").substring(2, 1), "b"),
    "trim": (lit("  x ").trim(), "x"),
    "trimmed characters": (lit("xxaxx").trim_leading("x"), "axx"),
    "position": (lit("b").position(col("s")), 2),
    "overlay": (col("s").overlay("X", 2), "aXc"),
    "like": (col("s").like("a%"), True),
    "regular expression": (col("s").regexp_extract("(.)c", 1), "b"),
    "cast": (col("s").try_cast(DataTypes.INT()), None),
    "cast to text": (col("i").cast("STRING"), "7"),
    "null": (null_of(DataTypes.STRING()), None),
    "if": (if_then_else(col("i") > 5, "big", "small"), "big"),
    "then": ((col("i") > 9).then(1, 2), 2),
    "coalesce": (coalesce(null_of("INT"), col("i").cast("INT")), 7),
    "not": (not_(col("i") == 7), False),
    "concatenation": (concat(col("s"), "-", "x"), "abc-x"),
    "array": (array(1, 2, 3)[2], 2),
    "cardinality": (lit([1, 2]).cardinality, 2),
    "map": (map_("a", 1, "b", 2).at("b"), 2),
    "literal map": (lit({"a": 5}).at("a"), 5),
    "row": (row(1, "x").cast("ROW<a INT, b STRING>").get("b"), "x"),
    "date": (lit(datetime.date(2024, 2, 29)).extract(TimeIntervalUnit.DAY), 29),
    "timestamp": (lit(datetime.datetime(2024, 2, 29, 1, 2, 3, 456000)) + lit(1).days, "2024-03-01 01:02:03.456"),
    "interval": (lit(datetime.datetime(2024, 1, 1)) + lit(1500).millis, "2024-01-01 00:00:01.5"),
    "long interval": (lit(datetime.datetime(2024, 1, 1)) - lit(400).hours, "2023-12-15 08:00:00"),
    "instant": (
        to_timestamp_ltz(1500, 3) == lit(datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, datetime.UTC)),
        True,
    ),
    "rounded time": (lit(datetime.datetime(2024, 2, 29, 1, 2)).floor(TimeIntervalUnit.HOUR), "2024-02-29 01:00:00"),
    "difference": (
        timestamp_diff(TimePointUnit.DAY, lit(datetime.date(2024, 1, 1)), lit(datetime.date(2024, 3, 1))),
        60,
    ),
    "decimal": (lit(Decimal("1.50")) + lit(Decimal("0.25")), Decimal("1.75")),
    "big": (lit(3_000_000_000), 3_000_000_000),
    "float": (lit(1e-20), 1e-20),
    "not a number": (lit(float("inf")), float("inf")),
    "bytes": (lit(b"ab").decode("UTF-8"), "ab"),
    "json": (lit('{"a": {"b": 5}}').json_value("$.a.b", DataTypes.INT()), 5),
    "json without a value": (
        lit("{}").json_value("lax $.a", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, -1),
        -1,
    ),
    "json query": (lit('{"a": [1]}').json_query("$.a"), "[1]"),
    "is json": (lit("[1").is_json(), False),
    "sql": (call_sql("CHAR_LENGTH(s) + 1"), 4),
    "hash": (col("s").md5, "900150983cd24fb0d6963f7d28e17f72"),
    "rounded": (lit(Decimal("2.345")).round(2), Decimal("2.35")),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_have_the_values_of_flink(tables: Tables, name: str) -> None:
    """An expression would become another function of SQL, or one with its arguments in another order."""
    expression, expected = EXPRESSIONS[name]
    one = tables.environment.from_elements([(7, "abc")], ["i", "s"])
    if isinstance(expected, str) and name in ("timestamp", "interval", "long interval", "rounded time"):
        (found,) = values(one.select(expression))
        assert found[0] == datetime.datetime.fromisoformat(expected)
        return
    assert values(one.select(expression)) == [(expected,)]


def test_names_are_quoted_wherever_they_stand(tables: Tables) -> None:
    """A column called `order`, or one with a quote, would be taken for SQL."""
    t = tables.environment.from_elements([(1, "x")], ["select", "it`s; DROP TABLE t --"])
    found = (
        t.where(col("select") == 1)
        .group_by(col("it`s; DROP TABLE t --"))
        .select(col("it`s; DROP TABLE t --"), col("select").sum.alias("from"))
    )
    assert values(found) == [("x", 1)]
    assert found.get_schema().get_field_names() == ["it`s; DROP TABLE t --", "from"]


def test_windows(tables: Tables) -> None:
    """Rows would be grouped by other windows."""
    start = datetime.datetime(2024, 1, 1)
    rows = [(start + datetime.timedelta(seconds=second), "ab"[second % 2], second) for second in range(20)]
    tables.create("timed", "ts TIMESTAMP(3), k STRING, n INT, WATERMARK FOR ts AS ts", inserts(rows))
    t = tables.environment.from_path("timed")
    tumble = t.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w")).group_by(col("k"), col("w"))
    found = tumble.select(col("k"), col("w").start, col("w").end, col("n").sum.alias("s"))
    ten = datetime.timedelta(seconds=10)
    expected = [
        (k, start + ten * half, start + ten * (half + 1), sum(n for at, one, n in rows if one == k and n // 10 == half))
        for k in "ab"
        for half in (0, 1)
    ]
    assert same(found, expected)
    slide = t.window(Slide.over(lit(10).seconds).every(lit(5).seconds).on(col("ts")).alias("w")).group_by(col("w"))
    counts = Counter({row[0]: row[1] for row in values(slide.select(col("w").start, col("n").count))})
    five = datetime.timedelta(seconds=5)
    assert counts == {start - five: 5, start: 10, start + five: 10, start + ten: 10, start + ten + five: 5}
    over = t.over_window(Over.partition_by(col("k")).order_by(col("ts")).alias("w"))
    assert "OVER (PARTITION BY `k` ORDER BY `ts`)" in repr(over.select(col("n").sum.over(col("w"))))


def test_insertions_of_tables(tables: Tables, t: Table, capsys: pytest.CaptureFixture[str]) -> None:
    """A table could not be written, alone or with others."""
    environment = tables.environment
    schema = Schema.new_builder().column("id", DataTypes.BIGINT()).column("name", "STRING").build()
    environment.create_temporary_table("printed", TableDescriptor.for_connector("print").schema(schema).build())
    t.where(t.id < 2).select(t.id, t.name).execute_insert("printed").wait()
    assert capsys.readouterr().out == "+I[1, a]\n"
    statements = environment.create_statement_set()
    statements.add_insert("printed", t.where(t.id == 2).select(t.id, t.name))
    statements.add_insert_sql(f"INSERT INTO printed SELECT id, name FROM {t} WHERE id = 3")
    statements.add(t.where(t.id == 4).select(t.id, t.name).insert_into(TableDescriptor.for_connector("print").build()))
    statements.execute().wait()
    assert sorted(capsys.readouterr().out.splitlines()) == ["+I[2, b]", "+I[3, a]", "+I[4, null]"]
    assert environment.drop_temporary_table("printed")
    assert not environment.drop_temporary_table("printed")


def test_views_and_descriptions(tables: Tables, t: Table) -> None:
    """SQL and Tables could not use each other."""
    environment = tables.environment
    environment.create_temporary_view("filtered", t.where(t.id > 3))
    assert same(environment.from_path("filtered").select(col("id")), [(4,), (5,)])
    assert same(environment.sql_query("SELECT id + 1 AS x FROM filtered;").where(col("x") > 5), [(6,)])
    with environment.execute_sql(f"SELECT COUNT(*) FROM {t.select(t.id)}").collect() as found:
        assert [row[0] for row in found][-1] == 5
    schema = (
        Schema.new_builder()
        .column("n", DataTypes.BIGINT())
        .column_by_expression("twice", col("n") * 2)
        .column_by_expression("at", "TO_TIMESTAMP_LTZ(n, 3)")
        .watermark("at", "`at` - INTERVAL '1' SECOND")
        .build()
    )
    numbers = environment.from_descriptor(
        TableDescriptor.for_connector("datagen")
        .schema(schema)
        .option("fields.n.kind", "sequence")
        .option("fields.n.start", "1")
        .option("fields.n.end", 3)
        .build()
    )
    assert same(numbers.select(numbers.n, numbers.twice), [(1, 2), (2, 4), (3, 6)])
    assert "*ROWTIME*" in str(numbers.get_resolved_schema())
    assert environment.drop_temporary_view("filtered")


def test_frames_come_and_go(tables: Tables) -> None:
    """Columns of pandas and Arrow would have other types or values as a table, and back."""
    frame = pandas.DataFrame(
        {"a": [1, 2], "b": ["x", None], "c": pandas.to_datetime(["2024-01-01", "2024-01-02"]).astype("datetime64[ns]")}
    )
    table = tables.environment.from_pandas(frame)
    assert str(table.get_schema().get_field_data_type("c")) == "TIMESTAMP(9)"
    back = table.to_pandas()
    assert back["a"].tolist() == [1, 2] and back["b"].isna().tolist() == [False, True]
    assert back["c"].tolist() == frame["c"].tolist()
    names = tables.environment.from_pandas(frame[["a", "b"]], ["x", "y"])
    assert names.get_schema().get_field_names() == ["x", "y"]
    arrow = pa.table({"a": pa.array([1, None], pa.int16()), "r": pa.array([{"x": 1}, None])})
    assert tables.environment.from_arrow(arrow).to_arrow().equals(arrow)
    typed = tables.environment.from_arrow(
        arrow.select(["a"]), DataTypes.ROW([DataTypes.FIELD("b", DataTypes.BIGINT())])
    )
    assert typed.to_arrow().schema == pa.schema([("b", pa.int64())])


def test_types_of_elements(tables: Tables) -> None:
    """Types would be guessed otherwise than by PyFlink, or a value that does not fit would get into a table."""
    environment = tables.environment
    t = environment.from_elements([{"a": 1, "b": [1.5]}, {"a": None, "b": None}])
    assert [str(one) for one in t.get_schema().get_field_data_types()] == ["BIGINT", "ARRAY<DOUBLE>"]
    assert environment.from_elements([(1, "x")]).get_schema().get_field_names() == ["_1", "_2"]
    with pytest.raises(TypeError, match="element 1: 'a' is INT, got 'x'"):
        environment.from_elements([(1,), ("x",)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]))
    with pytest.raises(ValueError, match="element 0: 'a' is INT NOT NULL, got None"):
        environment.from_elements([(None,)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT().not_null())]))
    with pytest.raises(ValueError, match=r"expected 2 fields \(a, b\), got \(1,\) \(element 0\)"):
        environment.from_elements([(1,)], ["a", "b"])
    with pytest.raises(TypeError, match="several types, BIGINT and STRING"):
        environment.from_elements([(1,), ("x",)], ["a"])
    with pytest.raises(ValueError, match="all values are None"):
        environment.from_elements([(None,)], ["a"])


def lines_of(error: Any) -> str:
    """Return the text of an error."""
    return str(error.value)


def test_errors_name_what_is_wrong_and_the_line_of_the_program(tables: Tables, t: Table) -> None:
    """A wrong name in one of many calls would be an error of the last one, or of SQL that the user has not written."""
    with pytest.raises(SqlError, match=r"no column 'nam': its columns are id, name, value\. Did you mean 'name'\?"):
        t.select(col("nam"))
    with pytest.raises(AttributeError, match="no column 'ide'"):
        t.ide  # noqa: B018
    with pytest.raises(SqlError, match="no column 'nam'"):
        t.group_by(t.name).select(col("nam"))
    unknown = tables.environment.sql_query("SELECT 1 AS x, 'a' AS y")
    wrong = unknown.select(col("x"), col("z")).where(col("x") > 0).select(col("x"))
    with pytest.raises(SqlError) as error:
        wrong.execute()
    assert "Column 'z' not found" in lines_of(error)
    program = Path(__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(program, 1) if 'wrong = unknown.select(col("x"), col("z"))' in text)
    assert lines_of(error).endswith(f"select, called in {__file__}, line {line}")
    with pytest.raises(ValueError, match="both tables have a column 'id'"):
        t.join(t, t.id == 1)
    with pytest.raises(ValueError, match="same TableEnvironment"):
        t.union_all(Tables().environment.from_elements([(1,)], ["id"]))
    with pytest.raises(TypeError, match="write & for and"):
        t.where(t.id > 1 and t.id < 3)
    with pytest.raises(ValueError, match="leaves no column"):
        t.drop_columns(t.id, t.name, t.value)
    with pytest.raises(TypeError, match="needs expressions such as"):
        t.where("id > 1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs the window"):
        t.window(Tumble.over(lit(1).seconds).on(t.id).alias("w")).group_by(t.name)
    with pytest.raises(ValueError, match="must be an interval such as"):
        Tumble.over(lit(5))
    with pytest.raises(TypeError, match="distinct follows an aggregate"):
        t.id.distinct  # noqa: B018
    with pytest.raises(ValueError, match="expected a name such as orders"):
        tables.environment.from_path("a..b")


def test_the_schema_is_printed_as_flink_prints_it(t: Table, capsys: pytest.CaptureFixture[str]) -> None:
    """A user would see other types than those of Flink."""
    t.select(t.id, t.name).print_schema()
    assert capsys.readouterr().out == "(\n  `id` BIGINT,\n  `name` STRING\n)\n"


def test_options_of_a_configuration_and_explain(t: Table) -> None:
    """EXPLAIN of a composed table would say nothing."""
    assert "== Abstract Syntax Tree ==" in t.where(t.id > 1).explain()
    with pytest.raises(TypeError, match="EnvironmentSettings"):
        TableEnvironment.create("streaming")  # type: ignore[arg-type]
    assert TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).get_config().get_local_timezone() == "UTC"
