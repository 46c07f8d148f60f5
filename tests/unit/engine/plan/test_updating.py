"""What of a new program may take the place of what runs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.common.errors import JobError
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.updating import updated
from penstock.service.client.plan_executor import PlanExecutor

PROGRAM = """
from penstock.common import Time, Types
from penstock.datastream import AsyncDataStream
from penstock.datastream.functions import AggregateFunction, AsyncFunction, KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows

LIMIT = 3

class Count(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value[1] < LIMIT:
            yield value

class Sums(AggregateFunction):
    def create_accumulator(self): return 0
    def add(self, value, accumulator): return accumulator + value[1]
    def get_result(self, accumulator): return accumulator
    def merge(self, a, b): return a + b

class Whole(ProcessWindowFunction):
    def process(self, key, context, elements): yield key, list(elements)

class Ask(AsyncFunction):
    async def async_invoke(self, value): return [value]

numbers = env.from_collection([("a", 1), ("b", 2)]).uid("numbers")
mapped = numbers.map(lambda v: (v[0], v[1] + 1)).uid("mapped").name("Mapped")
keyed = mapped.key_by(lambda v: v[0])
counted = keyed.process(Count()).uid("counted")
summed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).aggregate(Sums(), Whole()).uid("summed")
asked = AsyncDataStream.unordered_wait(mapped, Ask(), Time.seconds(5)).uid("asked")
asked.union(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("reduced")).print().uid("shown")
summed.print().uid("sums")
counted.print().uid("counts")
env.execute("job")
"""


def graph(program: str = PROGRAM, batched: bool = False) -> JobGraph:
    """The plan of a program."""
    plans = PlanExecutor()
    env = StreamExecutionEnvironment(executor=plans)
    if batched:
        from penstock.common.configuration.choices import RuntimeExecutionMode

        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    exec(compile(program, "program.py", "exec"), {"__name__": "__main__", "env": env})
    return plans.graphs[0]


def changed(*replacements: tuple[str, str]) -> str:
    """The program with other text in some places."""
    program = PROGRAM
    for old, new in replacements:
        assert old in program
        program = program.replace(old, new)
    return program


@pytest.mark.parametrize(
    ("old", "new", "operators"),
    [
        ("v[1] + 1", "v[1] + 2", ["Mapped"]),
        ("value[1] < LIMIT", "value[1] > LIMIT", ["KeyedProcess"]),
        ("LIMIT = 3", "LIMIT = 4", ["KeyedProcess"]),
        ("accumulator + value[1]", "accumulator - value[1]", ["TumblingEventTimeWindows"]),
        ("yield key, list(elements)", "yield key, sum(elements)", ["TumblingEventTimeWindows"]),
        ("a[1] + b[1]", "max(a[1], b[1])", ["Reduce"]),
        ('name("Mapped")', 'name("Other")', []),
    ],
)
def test_functions_may_be_others(old: str, new: str, operators: list[str]) -> None:
    """A user would stop a job to mend a condition."""
    if not operators:
        with pytest.raises(JobError, match="already has these functions"):
            updated(graph(), graph(changed((old, new))))
        return
    running = graph()
    update = updated(running, graph(changed((old, new))))
    assert [name.partition("(")[0] for name in update.operators] == operators
    (vertex,) = update.functions
    (functions,) = update.functions[vertex]
    node = update.graph.vertices[vertex].nodes[functions.operator]
    assert node.name == running.vertices[vertex].nodes[functions.operator].name
    assert len(pickle.loads(functions.functions)) == len(node.operator.function_places())
    assert [v.parallelism for v in update.graph.vertices] == [v.parallelism for v in running.vertices]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('("b", 2)', '("b", 3)', r"differs in more than its functions \('source'\): it has no function"),
        ("lambda v: v[0])", "lambda v: v[1])", "another partitioner or key selector"),
        ('uid("mapped")', 'uid("other")', "lacks 'mapped' and adds 'other'"),
        ("Time.seconds(5))).aggregate", "Time.seconds(6))).aggregate", "differs in more than its functions"),
        ("keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))", "keyed.process(Count())", "another kind of operator"),
        ("return [value]", "return [value, value]", "calls have not returned yet"),
        ('counted.print().uid("counts")', 'mapped.print().uid("counts"); counted.print().uid("more")', "adds 'more'"),
        ("counted.print()", "mapped.union(counted).print()", "is not in the job"),
        (
            "class Sums(AggregateFunction):",
            "class Sums(AggregateFunction):\n    shares_slices = True",
            "in another form",
        ),
        (".map(lambda v: (v[0], v[1] + 1))", ".map(lambda v: v, Types.TUPLE([Types.STRING(), Types.INT()]))", "type"),
    ],
)
def test_what_else_is_different_is_refused_with_the_reason(old: str, new: str, why: str) -> None:
    """State would be read by what it does not belong to, or records would take ways that are not there."""
    with pytest.raises(JobError, match=why):
        updated(graph(), graph(changed((old, new))))


def test_a_job_in_batch_mode_is_not_updated() -> None:
    """It has no barriers."""
    with pytest.raises(JobError, match="only a job in STREAMING mode"):
        updated(graph(batched=True), graph(batched=True))


def test_the_job_that_was_updated_can_be_updated_back() -> None:
    """The second update would compare the new program with what the job was started with."""
    new = changed(("v[1] + 1", "v[1] + 2"))
    now: Any = updated(graph(), graph(new)).graph
    assert updated(now, graph()).operators == ["Mapped"]
    with pytest.raises(JobError, match="already"):
        updated(now, graph(new))


ROUNDS = """
class Scale:
    def __call__(self, value): return (value[0], value[1] * self.by)

numbers = env.from_collection([("a", 1), ("b", 2)])
scale = Scale()
for name, field, by in (("first", 0, 1), ("second", 1, 10)):
    scale.by = by
    reduced = numbers.key_by(lambda value: value[field]).reduce(lambda a, b: (a[0], a[1] * by))
    reduced.map(scale).name(name).print()
env.execute("rounds")
"""


def test_functions_are_compared_as_they_were_given() -> None:
    """A new factor would be taken for the one of before, since in the driver both have that of the last round."""
    job = graph(ROUNDS)
    with pytest.raises(JobError, match="already has these functions"):
        updated(job, graph(ROUNDS))
    update = updated(job, graph(ROUNDS.replace("0, 1)", "0, 2)")))
    assert update.operators == ["Reduce", "first"]
    functions = [pickle.loads(new.functions)[0] for of_vertex in update.functions.values() for new in of_vertex]
    assert [functions[0].call(("a", 3), ("a", 4)), functions[1].call(("a", 3))] == [("a", 6), ("a", 6)]


def test_key_selectors_are_compared_as_they_were_given() -> None:
    """Keyed state would be mixed up if a new program selects other keys in the first of two rounds."""
    with pytest.raises(JobError, match="has another partitioner or key selector"):
        updated(graph(ROUNDS), graph(ROUNDS.replace("0, 1)", "1, 1)")))


def test_what_a_program_compares_stays_as_it_is() -> None:
    """Classes of the running script would get methods that no longer see its variables."""
    plans = PlanExecutor()
    script = {"__name__": "__main__", "env": StreamExecutionEnvironment(executor=plans)}
    exec(compile(ROUNDS, "program.py", "exec"), script)
    before = dict(vars(script["Scale"]))
    with pytest.raises(JobError, match="already has these functions"):
        updated(plans.graphs[0], graph(ROUNDS))
    assert dict(vars(script["Scale"])) == before
