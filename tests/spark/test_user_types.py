"""Classes that stand in the job's own script: between tasks, as keys, in state, in results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.spark.jobs import run_script

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.usefixtures("lent_jvms")]

SCRIPT = """
import dataclasses
import enum
from typing import NamedTuple

import prices
from penstock.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor


class Kind(enum.Enum):
    BOOK = "book"
    PEN = "pen"


@dataclasses.dataclass(frozen=True)
class Customer:
    name: str
    kind: Kind


@dataclasses.dataclass
class Order:
    customer: Customer
    items: list[str]


class Line(NamedTuple):
    kind: Kind
    item: str


@dataclasses.dataclass
class Account:
    orders: int = 0
    seen: list[str] = dataclasses.field(default_factory=list)


class Remember(KeyedProcessFunction):
    def open(self, ctx):
        self.account = ctx.get_state(ValueStateDescriptor("account"))

    def process_element(self, order, ctx):
        assert isinstance(order, Order), type(order)
        assert ctx.get_current_key() == order.customer
        account = self.account.value() or Account()
        account.orders += 1
        account.seen.extend(order.items)
        self.account.update(account)
        if account.orders == 2:
            yield order.customer, account


ORDERS = [
    Order(Customer(name, kind), [f"{name}-{kind.value}-{n}"])
    for n in range(2) for name in ("ann", "bob", "cy") for kind in Kind
]
for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_runtime_mode(mode)
    orders = env.from_collection(ORDERS).rebalance().map(lambda order: order)
    accounts = orders.key_by(lambda order: order.customer).process(Remember())
    lines = orders.flat_map(lambda order: [Line(order.customer.kind, item) for item in order.items])
    counts = lines.key_by(lambda line: line.kind).map(lambda line: (line.kind, prices.of(line.kind.value))).key_by(
        lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    with accounts.execute_and_collect() as results:
        for customer, account in sorted(results, key=lambda pair: (pair[0].name, pair[0].kind.value)):
            assert type(customer) is Customer and type(account) is Account
            print(mode.name, customer.name, customer.kind.name, account.orders, ",".join(sorted(account.seen)))
    with counts.execute_and_collect() as results:
        last = dict(results)
        print(mode.name, {kind.name: n for kind, n in sorted(last.items(), key=lambda pair: pair[0].name)})
        assert all(type(kind) is Kind for kind in last)
"""


@pytest.mark.parametrize("how", [pytest.param("penstock run", marks=pytest.mark.soak), "python"])
def test_classes_of_the_script(how: str, tmp_path: Path) -> None:
    """Every first program defines its own record types; they would not be found in the workers."""
    (tmp_path / "prices.py").write_text("def of(kind):\n    return {'book': 10, 'pen': 1}[kind]\n")
    done = run_script(tmp_path, SCRIPT, command=(sys.executable,) if how == "python" else ())

    assert done.returncode == 0, done.stderr
    for mode in ("STREAMING", "BATCH"):
        for name in ("ann", "bob", "cy"):
            for kind in ("BOOK", "PEN"):
                items = f"{name}-{kind.lower()}-0,{name}-{kind.lower()}-1"
                assert f"{mode} {name} {kind} 2 {items}" in done.stdout
        assert f"{mode} {{'BOOK': 60, 'PEN': 6}}" in done.stdout


DECODED = """
from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Generic, Optional, TypedDict, TypeVar

import msgspec

from penstock.common import WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat

T = TypeVar("T")


class Base(msgspec.Struct, rename="camel"):
    order_id: int


class Order(Base):
    customer: str
    items: list[str] = []
    next: Optional[Order] = None


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    order_id: int
    customer: str = "nobody"
    items: list[str] = dataclasses.field(default_factory=list)


class Line(TypedDict):
    customer: str


class Total(msgspec.Struct, Generic[T], frozen=True):
    key: T
    count: int = 1


lines = Path("orders.json")
lines.write_text('{"orderId": 1, "order_id": 1, "customer": "ann", "items": ["a"]}\\n'
                 '{"orderId": 2, "order_id": 2, "customer": "bob"}\\n'
                 '{"orderId": 3, "order_id": 3, "customer": "ann"}\\n')
for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
    for kind in (Order, Account, Line):
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2).set_runtime_mode(mode)
        source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(kind), lines).build()
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").rebalance()
        name = (lambda it: it["customer"]) if kind is Line else (lambda it: it.customer)
        totals = records.map(lambda it: Total(name(it))).key_by(lambda total: total.key).reduce(
            lambda a, b: Total(a.key, a.count + b.count))
        with totals.execute_and_collect() as results:
            highest = {}
            for total in results:
                assert type(total) is Total, type(total)
                highest[total.key] = max(total.count, highest.get(total.key, 0))
        print(mode.name, kind.__name__, sorted(highest.items()))
"""


def test_structs_and_types_of_formats_that_stand_in_the_script(tmp_path: Path) -> None:
    """The first custom source, or the first file of JSON, would fail: its classes stand in the script that is tried."""
    done = run_script(tmp_path, DECODED)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        f"{mode} {kind} [('ann', 2), ('bob', 1)]"
        for mode in ("STREAMING", "BATCH")
        for kind in ("Order", "Account", "Line")
    )


FUNCTIONS = """
import functools
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from penstock.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor


class Limit:
    def __init__(self, limit):
        self.limit = limit

    def exceeded(self, value):
        return value > self.limit


def is_large(value):
    return value > 10


def above(kind, limit, value):
    return kind(limit).exceeded(value)


class KeepsTheRule(KeyedProcessFunction):
    def open(self, ctx):
        self.rule = ctx.get_state(ValueStateDescriptor("rule"))

    def process_element(self, value, ctx):
        if callable(value[1]):
            self.rule.update(value[1])
        else:
            yield value[0], self.rule.value()(value[1])


def in_processes(value):
    answers = []
    for method in ("fork", "spawn"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            answers.append(pool.submit(functools.partial(above, Limit, 10), value).result(60))
    return answers


RULES = [is_large, functools.partial(above, Limit, 10), Limit(10).exceeded]
values = [(n, value) for value in (*RULES, 7, 11) for n in range(3)]
values = [(n, RULES[n] if callable(value) else value) for n, value in values]
for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(mode)
    kept = env.from_collection(values).rebalance().key_by(lambda value: value[0]).process(KeepsTheRule())
    pools = env.from_collection([7, 11]).map(in_processes)
    with kept.map(str).union(pools.map(str)).execute_and_collect() as results:
        print(mode.name, sorted(results))
env = StreamExecutionEnvironment.get_execution_environment()
try:
    list(env.from_collection([1]).map(lambda n: lambda: n).name("makes").rebalance().execute_and_collect())
except Exception as error:
    print(error)
"""


def test_functions_of_the_script_are_values(tmp_path: Path) -> None:
    """Rules that are sent, kept in state or called in processes could not stand in the script that is tried."""
    done = run_script(tmp_path, FUNCTIONS, command=(sys.executable,))
    assert done.returncode == 0, done.stderr
    of_state = [f"({n}, {exceeds})" for n in range(3) for exceeds in (False, True)]
    expected = sorted([*of_state, "[False, False]", "[True, True]"])
    streaming, batch, *error = done.stdout.splitlines()
    assert (streaming, batch) == (f"STREAMING {expected}", f"BATCH {expected}")
    text = "\n".join(error)
    assert "'makes'" in text and "<lambda>.<locals>.<lambda> by its name: define" in text
