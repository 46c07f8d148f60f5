"""Models in functions of batches: opened once for each subtask, closed, replaced, and their errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.simulation.programs import TIGHT, simulate
from tests.simulation.programs import environment as pipelined
from tests.snippets import ROOT, snippets_of
from tests.unit.datastream import simulated
from tests.unit.engine.runtime.hosted_task import Host

from penstock.common import Row, Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import UserFunctionError
from penstock.datastream import DataStream, FilterBatchesFunction, MapBatchesFunction, StreamExecutionEnvironment
from penstock.engine.plan import program_pickler
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.columns.conversions import ToColumnsOperator, ToRowsOperator
from penstock.engine.runtime.columns.operators import MapBatchesOperator
from penstock.engine.runtime.network.buffer import CheckpointBarrier
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.task.events import Cancel, Opaque, PrepareUpdate
from penstock.engine.runtime.task.function_update import NewFunctions

FLIGHT = Types.ROW_NAMED(["id", "delay"], [Types.LONG(), Types.DOUBLE()])
CALLS: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


class Model:
    """Notes when it is loaded, used and released."""

    def __init__(self, name: str, factor: float = 2.0) -> None:
        self.name = name
        self.factor = factor
        self.loaded: float | None = None

    def open(self, runtime_context: Any) -> None:
        CALLS.append(f"{self.name} open")
        self.loaded = self.factor

    def score(self, delays: Any) -> Any:
        assert self.loaded is not None, "not loaded, or released already"
        CALLS.append(f"{self.name} call")
        return delays * self.loaded

    def close(self) -> None:
        CALLS.append(f"{self.name} close")
        self.loaded = None


class Score(Model, MapBatchesFunction):
    """Returns scores."""

    def map_batches(self, batch: Any) -> Any:
        return {**batch, "delay": self.score(batch["delay"])}


class Believable(Model, FilterBatchesFunction):
    """Keeps rows by their scores."""

    def filter_batches(self, batch: Any) -> Any:
        return self.score(batch["delay"]) >= 0


def scored(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Return flights that two models have seen."""
    flights = env.from_collection([Row(id=i, delay=float(i - 2)) for i in range(20)], FLIGHT).rebalance()
    return flights.map_batches(Score("map"), "numpy").filter_batches(Believable("filter"), "numpy")


EXPECTED = Counter(Row(id=i, delay=(i - 2) * 2.0) for i in range(2, 20))


def check_calls(subtasks: int) -> None:
    for name in ("map", "filter"):
        calls = [call for call in CALLS if call.startswith(name)]
        assert calls.count(f"{name} open") == calls.count(f"{name} close") == subtasks
        assert calls.count(f"{name} call") > subtasks, "as often as it is called it would be loaded"


@pytest.mark.parametrize("chaining", [True, False])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_model_is_loaded_once_for_each_subtask(parallelism: int, chaining: bool) -> None:
    """A model of seconds would be loaded for each batch, or never be released."""
    env = pipelined(parallelism)
    if not chaining:
        env.disable_operator_chaining()
    scored(env).print()
    simulation = simulate(env, 1, TIGHT)
    simulation.run()
    assert simulation.error is None
    assert Counter(row for rows in simulation.results.values() for row in rows) == EXPECTED
    check_calls(parallelism)


@pytest.mark.parametrize("chaining", [True, False])
def test_in_batch_as_well(chaining: bool) -> None:
    """The same in BATCH mode."""
    env = simulated.environment()
    if not chaining:
        env.disable_operator_chaining()
    assert Counter(simulated.collected(scored(env))) == EXPECTED
    for name in ("map", "filter"):
        assert CALLS.count(f"{name} open") == CALLS.count(f"{name} close") == 1


def test_an_update_opens_the_new_model_before_it_closes_the_old_one() -> None:
    """A running job would stand still while its new model is loaded, or keep both."""
    columns = RecordColumns(FLIGHT)
    batches = MapBatchesOperator(
        "map", UserFunction(Score("old"), "map_batches"), "numpy", received=columns, returned=columns
    )
    host = Host(ToColumnsOperator(columns), batches, ToRowsOperator(columns), senders=1)
    new = program_pickler.dumps([UserFunction(Score("new", 10.0), "map_batches")])
    host.handle(PrepareUpdate(1, Opaque([NewFunctions(1, new)])))
    barrier = CheckpointBarrier(1, 0, CheckpointOptions(update=1))
    host.sends(0, [Row(id=1, delay=3.0)], barrier, [Row(id=1, delay=3.0)])
    assert host.flushed() == [Row(id=1, delay=6.0), barrier, Row(id=1, delay=30.0)]
    host.handle(Cancel())
    assert CALLS == ["old open", "new open", "old call", "old close", "new call", "new close"]


def test_a_model_that_cannot_be_loaded_names_the_operator() -> None:
    """The user would look for the mistake in the first batch."""

    class Missing(MapBatchesFunction):
        def open(self, runtime_context: Any) -> None:
            raise FileNotFoundError("late.joblib")

        def map_batches(self, batch: Any) -> Any:
            return batch

    stream = simulated.environment().from_collection([Row(id=1, delay=1.0)], FLIGHT)
    with pytest.raises(UserFunctionError, match=r"operator 'Map Batches'.* in Missing\.open(.|\n)*late\.joblib"):
        simulated.collected(stream.map_batches(Missing()))


def of_the_page() -> dict[str, Any]:
    """Return what the page's program for scikit-learn defines, without its job."""
    (snippet,) = (one for one in snippets_of(ROOT / "docs/how-to/models.md") if "sklearn" in one.program)
    defined: dict[str, Any] = {}
    exec(snippet.program.partition("\nenv = ")[0], defined)
    return defined


def test_a_model_of_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole batches would have other scores than single records, or a refused batch would not name its rows."""
    pytest.importorskip("sklearn", reason="`make setup` installs it")
    monkeypatch.chdir(tmp_path)
    page = of_the_page()

    class FromHere(page["Score"]):  # type: ignore[misc]
        def open(self, runtime_context: Any) -> None:
            self.model = page["joblib"].load(tmp_path / "late.joblib")

    random = numpy.random.default_rng(1)
    features = random.random((500, 2)) * [1_000, 100]
    rows = [Row(id=i, miles=miles, delay=delay) for i, (miles, delay) in enumerate(features.tolist())]

    def results(records: list[Row]) -> list[Row]:
        stream = simulated.environment().from_collection(records, page["FLIGHT"])
        return simulated.collected(stream.map_batches(FromHere(), "numpy", output_type=page["SCORED"]))

    one_by_one = [bool(page["model"].predict([one])[0]) for one in features]
    assert [row.late for row in results(rows)] == one_by_one and len(set(one_by_one)) == 2
    rows[7] = Row(id=7, miles=None, delay=1.0)
    rows[9] = Row(id=9, miles=1.0, delay=float("nan"))
    with pytest.raises(UserFunctionError, match=r"flights without features: \[7"):
        results(rows)
