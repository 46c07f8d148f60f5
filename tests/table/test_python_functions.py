"""Functions of the program in SQL and in expressions: what they get, what they may return, and how they fail.

The planner's jars are fetched the first time. Where neither they nor Java can be had, these tests are skipped.
"""

from __future__ import annotations

import base64
import datetime
import pickle
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.table.listed_tables import Tables, inserts

from penstock.common.errors import UserFunctionError
from penstock.common.types import Row
from penstock.table import DataTypes
from penstock.table.expressions import call, col
from penstock.table.planner.errors import PlannerError, SqlError, UnsupportedPlanError
from penstock.table.planner.planner import shared_process
from penstock.table.udf import FunctionContext, ScalarFunction, TableFunction, udaf, udf, udtf

ROW = "k STRING, n BIGINT, f DOUBLE"


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


@udf(result_type=DataTypes.BIGINT())
def add(a: int | None, b: int | None) -> int | None:
    """Add, with NULL as nothing."""
    return (a or 0) + (b or 0)


@udf(result_type="BIGINT", func_type="pandas")
def add_series(a: Any, b: Any) -> Any:
    """Add two Series."""
    return a.fillna(0) + b.fillna(0)


@udf(result_type="BIGINT", func_type="arrow")
def add_arrays(a: Any, b: Any) -> Any:
    """Add two arrays."""
    return pc.add(pc.fill_null(a, 0), pc.fill_null(b, 0))


@udtf(result_types=[DataTypes.STRING(), DataTypes.INT()])
def words(text: str | None) -> Any:
    """Give each word and its length."""
    for word in (text or "").split():
        yield word, len(word)


def rows(seed: int, count: int = 50) -> list[tuple[Any, ...]]:
    """Return random rows with NULL."""
    random = Random(seed)
    texts = [None, "", "one", "two words", "and three more"]
    return [
        (random.choice(texts), random.choice([None, *range(-3, 9)]), random.choice([None, 0.5, -1.25]))
        for _ in range(count)
    ]


@pytest.mark.parametrize("function", [add, add_series, add_arrays])
def test_each_kind_of_function_gives_what_python_gives(function: Any) -> None:
    """Functions of rows, of Series and of arrays would disagree with each other, in projections and in filters."""
    data = rows(1)
    tables = Tables()
    tables.create("t", ROW, inserts(data))
    tables.environment.create_temporary_function("add_up", function)
    found = tables.insert("o", "k STRING, s BIGINT", "SELECT k, add_up(n, 5) FROM t WHERE add_up(n, n) > 4")
    expected = [(k, (n or 0) + 5) for k, n, _ in data if 2 * (n or 0) > 4]
    assert expected
    assert Counter(found) == Counter(inserts(expected))


def test_functions_in_joins_and_of_aggregates() -> None:
    """A condition of a join, and the results of aggregates, could not be passed to a function."""
    data = rows(2)
    tables = Tables()
    tables.create("a", ROW, inserts(data))
    tables.create("b", ROW, inserts(data[:7]))
    tables.environment.create_temporary_system_function("add_up", add)
    found = tables.insert(
        "o", "n BIGINT, m BIGINT", "SELECT a.n, b.n FROM a JOIN b ON a.k = b.k AND add_up(a.n, b.n) > 6"
    )
    expected = [
        (n, m) for k, n, _ in data for j, m, _ in data[:7] if k is not None and k == j and (n or 0) + (m or 0) > 6
    ]
    assert expected
    assert Counter(found) == Counter(inserts(expected))
    sums = tables.insert("p", "s BIGINT", "SELECT ADD_UP(SUM(n), COUNT(*)) FROM a")
    assert sums[-1] == ("+U", (sum(n or 0 for _, n, _ in data) + len(data),))


@pytest.mark.parametrize("is_left", [False, True])
def test_table_functions_in_lateral_joins(is_left: bool) -> None:
    """A row would not be joined with the rows that a function gives for it."""
    data = rows(3)
    tables = Tables()
    tables.create("t", ROW, inserts(data))
    tables.environment.create_temporary_function("words", words)
    join = (
        "LEFT JOIN LATERAL TABLE(words(k)) AS w(word, len) ON TRUE"
        if is_left
        else ", LATERAL TABLE(words(k)) AS w(word, len)"
    )
    found = tables.insert("o", "n BIGINT, word STRING, len INT", f"SELECT n, word, len FROM t {join}")
    expected = []
    for text, n, _ in data:
        given = [(n, word, len(word)) for word in (text or "").split()]
        expected += given or ([(n, None, None)] if is_left else [])
    assert Counter(found) == Counter(inserts(expected))


VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, None],
    "TINYINT": [-128, None],
    "INT": [7, None],
    "FLOAT": [0.5, None],
    "DOUBLE": [0.1, None],
    "STRING": ["ä'", None],
    "BYTES": [b"\x00\xff", None],
    "DECIMAL(10, 2)": [Decimal("1.50"), None],
    "DATE": [datetime.date(2024, 2, 29), None],
    "TIME(3)": [datetime.time(23, 59, 59, 999000), None],
    "TIMESTAMP(3)": [datetime.datetime(2024, 2, 29, 1, 2, 3, 4000), None],
    "TIMESTAMP(6)": [datetime.datetime(1900, 2, 28, 1, 2, 3, 4), None],
    "TIMESTAMP_LTZ(3)": [datetime.datetime(2024, 2, 29, tzinfo=ZoneInfo("UTC")), None],
    "ARRAY<STRING>": [["a", None], None],
    "MAP<STRING, INT>": [{"a": 1, "b": None}, None],
    "ROW<a INT, b ARRAY<INT>>": [Row(a=1, b=[2]), None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_each_type_come_and_go_unchanged(kind: str) -> None:
    """A function would get, or return, another value than the one of the row."""

    @udf(result_type=kind)
    def same(value: Any) -> Any:
        return value

    shown = udf(repr, result_type="STRING")
    tables = Tables()
    t = tables.environment.from_elements([(value,) for value in VALUES[kind]], DataTypes.ROW([_field("v", kind)]))
    with t.select(same(t.v), shown(t.v)).execute().collect() as found:
        assert [tuple(row) for row in found] == [(value, repr(value)) for value in VALUES[kind]]


def _field(name: str, kind: str) -> Any:
    from penstock.table.declared_types import logical_type
    from penstock.table.types import DataType

    return DataTypes.FIELD(name, DataType(logical_type(kind)))


def test_decimals_are_rounded_and_overflow_is_null() -> None:
    """Flink rounds a decimal that a function returns (half up), and has NULL for one with too many digits."""

    @udf(result_type="DECIMAL(4, 1)")
    def decimal_of(value: str) -> Decimal:
        return Decimal(value)

    t = Tables().environment.from_elements([("1.25",), ("-1.25",), ("999.94",), ("999.95",), ("1e30",)], ["v"])
    with t.select(decimal_of(t.v)).execute().collect() as found:
        assert [row[0] for row in found] == [Decimal("1.3"), Decimal("-1.3"), Decimal("999.9"), None, None]


def test_objects_are_opened_and_closed_in_each_subtask(tmp_path: Path) -> None:
    """A function that prepares itself in open would fail, or would not release what it has taken."""
    log = tmp_path / "log"

    class Adder(ScalarFunction):
        def open(self, function_context: FunctionContext) -> None:
            self.file = log.open("a")
            print("open", function_context.get_index_of_this_subtask(), file=self.file)
            self.added = int(function_context.get_job_parameter("added", "10"))

        def eval(self, value: int) -> int:
            return value + self.added

        def close(self) -> None:
            print("close", file=self.file)
            self.file.close()

    class Repeat(TableFunction):
        def open(self, function_context: FunctionContext) -> None:
            self.times = 2

        def eval(self, value: int) -> Any:
            return [value] * self.times

    adder, repeat = udf(Adder(), result_type="BIGINT"), udtf(Repeat(), result_types="BIGINT")
    t = Tables(parallelism=1).environment.from_elements([(1,), (2,)], ["v"])
    with t.select(adder(t.v).alias("w")).join_lateral(repeat(col("w")).alias("x")).execute().collect() as found:
        assert [tuple(row) for row in found] == [(11, 11), (11, 11), (12, 12), (12, 12)]
    assert log.read_text().splitlines() == ["open 0", "close"]


def test_functions_without_arguments_and_those_that_are_not_deterministic() -> None:
    """One call would serve all rows, though each call has another result."""
    numbers = iter(range(100))

    @udf(result_type="BIGINT", deterministic=False)
    def number() -> int:
        return next(numbers)

    @udf(result_type="BIGINT")
    def five() -> int:
        return 5

    t = Tables(parallelism=1).environment.from_elements([(1,), (2,), (3,)], ["v"])
    with t.select(t.v, number(), number(), five()).execute().collect() as found:
        values = [tuple(row) for row in found]
    assert [row[3] for row in values] == [5, 5, 5]
    assert sorted(one for row in values for one in row[1:3]) == list(range(6))


def failure(tables: Tables, query: Any) -> str:
    """Run a query that fails, and return the text of its error."""
    query.execute()
    error = tables.executor.error
    assert isinstance(error, UserFunctionError), error
    return str(error)


def test_an_error_names_the_function_its_arguments_the_sql_and_the_line() -> None:
    """A user would search for the row among all, and for the function among all of the query."""

    @udf(result_type="BIGINT")
    def inverse(value: int, by: int) -> int:
        return by // (value - 40)

    tables = Tables()
    t = tables.environment.from_elements([(value,) for value in range(100)], ["v"])
    text = failure(tables, t.select(inverse(t.v, 7)))
    assert "in inverse, which SQL calls in PythonCalc(select=[inverse$1(v, 7)" in text
    assert "value inverse(40, 7)" in text
    assert "return by // (value - 40)" in text
    assert "ZeroDivisionError" in text
    assert "site-packages" not in text and "python_calls.py" not in text


@pytest.mark.parametrize(
    ("kind", "result", "message"),
    [
        ("general", "x", "wrong returned 'x' for BIGINT"),
        ("general", 1.5, "wrong returned 1.5 for BIGINT"),
        ("general", 2**63, "wrong returned 9223372036854775808 for BIGINT"),
        ("pandas", "x", "wrong must return a pandas.Series, got str"),
        ("arrow", [1], "wrong must return an array of pyarrow, got list"),
        ("arrow", pa.array([1, 2]), "wrong returned 2 values for a batch of 3 rows"),
    ],
)
def test_a_result_that_is_not_of_the_type_is_an_error_that_says_so(kind: Any, result: Any, message: str) -> None:
    """A column would silently have other values than the function returned."""

    def wrong(value: Any) -> Any:
        return result

    tables = Tables()
    t = tables.environment.from_elements([(1,), (2,), (3,)], ["v"])
    assert message in failure(tables, t.select(udf(wrong, result_type="BIGINT", func_type=kind)(t.v)))


def test_errors_of_table_functions_name_the_row() -> None:
    """A row that the function can't take, and one that it returns with a wrong type, would be searched for."""

    @udtf(result_types=["INT"])
    def lengths(text: str) -> Any:
        yield len(text) if text != "bad" else "bad"

    tables = Tables()
    t = tables.environment.from_elements([("a",), (None,), ("bad",)], DataTypes.ROW([_field("v", "STRING")]))
    text = failure(tables, t.join_lateral(lengths(t.v)))
    assert "value lengths(None)" in text and "TypeError" in text
    known = tables.environment.from_elements([("a",), ("bad",)], ["v"])
    text = failure(tables, known.join_lateral(lengths(known.v)))
    assert "value lengths('bad')" in text and "lengths returned ('bad',) for ROW<`f0` INT>" in text


def test_functions_are_created_and_dropped_by_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CREATE FUNCTION of a function in a module, and DROP, would not work; one in Java has to be refused."""
    (tmp_path / "functions_of_test.py").write_text(
        "from penstock.table.udf import udf\n\n\n"
        "@udf(result_type='BIGINT')\ndef twice(value):\n    return 2 * value\n\n\n"
        "def untyped(value):\n    return value\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = Tables().environment
    t = environment.from_elements([(1,), (2,)], ["v"])
    create = "CREATE TEMPORARY FUNCTION {} AS 'functions_of_test.{}' LANGUAGE PYTHON"
    environment.execute_sql(create.format("Twice", "twice"))
    with environment.execute_sql(f"SELECT twice(v) FROM {t}").collect() as found:
        assert [row[0] for row in found] == [2, 4]
    assert environment.list_user_defined_functions() == ["twice"]
    with pytest.raises(SqlError, match="already"):
        environment.execute_sql(create.format("twice", "twice"))
    environment.execute_sql(create.format("IF NOT EXISTS twice", "twice"))
    assert environment.drop_temporary_function("twice")
    assert not environment.drop_temporary_function("twice")
    with pytest.raises(SqlError, match="twice"):
        environment.execute_sql(f"SELECT twice(v) FROM {t}")
    with pytest.raises(SqlError, match=r"has no types: decorate the function with @udf"):
        environment.execute_sql(create.format("u", "untyped"))
    with pytest.raises(SqlError, match=r"can't be imported"):
        environment.execute_sql(create.format("u", "missing"))
    with pytest.raises(SqlError, match="functions in Java are not supported"):
        environment.execute_sql("CREATE FUNCTION f AS 'com.example.F'")


def test_functions_that_are_not_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DROP FUNCTION would not find what CREATE FUNCTION has made, and ALTER FUNCTION would leave the old one."""
    (tmp_path / "more_functions_of_test.py").write_text(
        "from penstock.table.udf import udf\n\n\n"
        "@udf(input_types=['BIGINT'], result_type='BIGINT')\ndef twice(value):\n    return 2 * value\n\n\n"
        "@udf(result_type='BIGINT', deterministic=False)\ndef thrice(value):\n    return 3 * value\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = Tables().environment

    def execute(statement: str) -> list[tuple[object, ...]]:
        with environment.execute_sql(statement).collect() as rows:
            return [tuple(row) for row in rows]

    with pytest.raises(SqlError, match="Function multiple does not exist"):
        execute("ALTER FUNCTION multiple AS 'more_functions_of_test.twice' LANGUAGE PYTHON")
    execute("ALTER FUNCTION IF EXISTS multiple AS 'more_functions_of_test.twice' LANGUAGE PYTHON")
    execute("CREATE FUNCTION multiple AS 'more_functions_of_test.twice' LANGUAGE PYTHON")
    assert execute("SELECT multiple(5)") == [(10,)]
    described = dict(execute("DESCRIBE FUNCTION EXTENDED `multiple`"))
    assert described["class name"] == "more_functions_of_test.twice"
    assert (described["is temporary"], described["signature"]) == ("false", "multiple(BIGINT)")
    execute("ALTER FUNCTION multiple AS 'more_functions_of_test.thrice' LANGUAGE PYTHON")
    assert execute("SELECT multiple(5)") == [(15,)]
    with pytest.raises(SqlError, match="Alter temporary catalog function is not supported"):
        execute("ALTER TEMPORARY FUNCTION multiple AS 'more_functions_of_test.twice' LANGUAGE PYTHON")
    execute("DROP FUNCTION multiple")
    execute("DROP FUNCTION IF EXISTS multiple")
    with pytest.raises(SqlError, match="multiple does not exist"):
        execute("DROP FUNCTION multiple")
    with pytest.raises(SqlError, match="multiple"):
        execute("SELECT multiple(5)")


def test_a_function_of_the_program_does_not_hide_that_of_sql() -> None:
    """A function called `upper` in the program would change what UPPER means in all queries."""

    @udf(result_type="STRING")
    def upper(value: str) -> str:
        return "mine"

    t = Tables().environment.from_elements([("a",)], ["v"])
    with t.select(upper(t.v), t.v.upper_case, call("upper", t.v)).execute().collect() as found:
        assert [tuple(row) for row in found] == [("mine", "A", "A")]


def test_declared_types_of_arguments_are_checked_by_the_planner() -> None:
    """A number would reach a function of texts, and fail in the middle of the job."""

    @udf(input_types=[DataTypes.STRING()], result_type="INT")
    def length(value: str) -> int:
        return len(value)

    environment = Tables().environment
    t = environment.from_elements([("a", 1.5)], ["v", "f"])
    with pytest.raises(SqlError, match="length"):
        t.select(length(t.f, t.v)).get_schema()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: udf(lambda v: v), "needs a result_type"),
        (lambda: udtf(lambda v: v), "needs result_types"),
        (lambda: udf(lambda v: v, result_type="BIGINT", func_type="numpy"), "func_type must be one of"),  # type: ignore[arg-type]
        (lambda: udf(lambda v: v, result_type="BIGNIT"), "'BIGNIT' is not a type of SQL"),
        (lambda: udf(ScalarFunction, result_type="BIGINT"), r"write ScalarFunction\(\)"),
        (lambda: udf(3, result_type="BIGINT"), "expected a function"),  # type: ignore[call-overload]
        (lambda: udaf(lambda v: v), "aggregate function"),
        (lambda: Tables().environment.create_temporary_function("f", lambda v: v), "made by udf or udtf"),
    ],
)
def test_what_is_not_a_function_is_refused_by_the_call_that_makes_it(make: Any, message: str) -> None:
    """A mistake would be found when the job runs, far from the line that made it."""
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        make()


def test_coroutines_are_refused() -> None:
    """Each row would have a coroutine in place of a value."""

    async def later(value: int) -> int:
        return value

    with pytest.raises(TypeError, match="asynchronous"):
        udf(later, result_type="BIGINT")


class Trap:
    """Creates a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_a_plan_in_a_file_can_not_run_code(tmp_path: Path) -> None:
    """Whoever sends a plan would run code: functions of a plan are names, which the program knows or does not."""
    plan, sprung = tmp_path / "plan.json", tmp_path / "sprung"
    tables = Tables()
    tables.create("t", ROW, inserts([("a", 1, 0.5)]))
    tables.create("o", "n BIGINT")
    tables.environment.create_temporary_system_function("add_up", add)
    tables.environment.execute_sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO o SELECT add_up(n, 5) FROM t")
    payload = base64.b64encode(pickle.dumps(Trap(sprung))).decode()
    text = plan.read_text()
    assert '"add_up"' in text and "base64" not in text
    named = '"systemName" : "add_up"'
    for forged, reason in (
        (f'{named}, "instance" : "{payload}"', "unknown field `instance`"),
        (f'"class" : "{payload}"', "unknown field `class`"),
        (f'"systemName" : "{payload}"', "is not supported"),
        ('"catalogName" : "os.abort"', "function os.abort is not supported"),
    ):
        assert named in text
        plan.write_text(text.replace(named, forged))
        with pytest.raises(UnsupportedPlanError, match=reason):
            tables.environment.execute_sql(f"EXECUTE PLAN '{plan}'")
        assert not sprung.exists()
    plan.write_text(text)
    tables.environment.execute_sql(f"EXECUTE PLAN '{plan}'")
    assert tables.listed.sinks["o"] == inserts([(6,)])
    pickle.loads(base64.b64decode(payload))
    assert sprung.exists(), "the trap works"


def test_a_plan_with_functions_is_explained() -> None:
    """EXPLAIN would fail: Flink's needs PyFlink's library for such plans."""
    environment = Tables().environment
    t = environment.from_elements([("a b",)], ["v"])
    text = t.join_lateral(words(t.v).alias("w", "n")).explain()
    assert text.startswith("== Optimized Execution Plan ==\n")
    assert "PythonCorrelate(" in text and "+- TableSourceScan(" in text


@udf(result_type="STRING")
def graded(value: int) -> Any:
    """Return what is not a text."""
    return value


@udf(result_type="DOUBLE", func_type="pandas")
def first_alone(values: Any) -> Any:
    """Return fewer values than rows."""
    return values.head(1)


@pytest.mark.parametrize(
    ("call_of", "message"),
    [
        ("graded(n)", "graded returned 1 for STRING: expected str, got a 'int' object"),
        ("first_alone(n)", "first_alone returned 1 values for a batch of 2 rows: return one for each"),
    ],
)
def test_a_wrong_result_is_shown_without_our_code(call_of: str, message: str) -> None:
    """The page of functions shows these texts; lines of ours would hide the mistake."""
    environment = Tables().environment
    for function in (graded, first_alone):
        environment.create_temporary_function(function.name, function)
    with pytest.raises(UserFunctionError) as raised:
        list(environment.execute_sql(f"SELECT {call_of} AS r FROM (VALUES (1), (2)) AS t(n)").collect())
    assert message in str(raised.value) and ".py" not in str(raised.value)
    page = Path(__file__).parents[2] / "docs" / "how-to" / "python-functions.md"
    assert message.partition(" returned ")[2].partition(" for ")[2] in page.read_text(encoding="utf-8")
