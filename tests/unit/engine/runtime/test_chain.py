"""Fused operators: forks, side outputs, pauses anywhere in the chain, and the order of open and close."""

from __future__ import annotations

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.buffer import Watermark, WatermarkStatus
from penstock.engine.runtime.network.partitioners import (
    CustomPartitioner,
    ForwardPartitioner,
    HashPartitioner,
    Partitioner,
)
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.process import ProcessOperator
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.engine.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from penstock.engine.runtime.operators.two_inputs import inputs_of
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode
from penstock.engine.state.key_groups import KeyGroups

SIDE = OutputTag("side")


class End(Operator):
    """Records what reaches the end of a branch."""

    def __init__(self, name: str, log: list) -> None:
        super().__init__(name)
        self.log = log

    def open(self):
        self.log.append(f"open {self.name}")

    def process(self, chunk):
        values = chunk.values
        self.log.extend((self.name, value) for value in values)
        return True

    def watermark(self, timestamp):
        self.log.append((self.name, "watermark", timestamp))
        return True

    def status(self, active):
        self.log.append((self.name, "status", active))
        return True

    def close(self):
        self.log.append(f"close {self.name}")


class Failing(End):
    def __init__(self, name: str, log: list, fails_in: str) -> None:
        super().__init__(name, log)
        self.fails_in = fails_in

    def open(self):
        super().open()
        if self.fails_in == "open":
            raise OSError(self.name)

    def close(self):
        super().close()
        if self.fails_in == "close":
            raise OSError(self.name)


class Edge:
    """Replaces an edge that leaves the vertex."""

    def __init__(self, name: str, log: list) -> None:
        self.name, self.log = name, log
        self.partitioner: Partitioner = ForwardPartitioner()

    def emit(self, chunk):
        values = chunk.values
        self.log.extend((self.name, value) for value in values)
        return True

    def element(self, element):
        self.log.append((self.name, element))


class TwoInputs(End):
    """Records what arrives on which input."""

    def setup(self, context, output):
        super().setup(context, output)
        self.both = inputs_of(self, lambda chunk: self.took("first", chunk.values), self.process)

    def inputs(self):
        return self.both

    def took(self, input, values):
        self.log.extend((input, value) for value in values)
        return True

    def end_input(self, index=0):
        self.log.append(("ends", index))
        return True


def chained(*nodes, edges=None, patient: bool = True, chunk_records: int = 1024) -> Chain:
    """A chain of (operator, *links); a link is an index, or a ChainLink."""
    chain = Chain(
        [
            ChainNode(op, "", [link if isinstance(link, ChainLink) else ChainLink(operator=link) for link in links])
            for op, *links in nodes
        ]
    )
    budget = Budget(lambda: 0, step_ns=1 if patient else 0)
    budget.begin_step()
    budget.chunk_records = chunk_records
    for node, outlet, counters in zip(chain.nodes, chain.outlets, chain.counters, strict=True):
        info = SubtaskInfo("job", 0, "task", 0, 1, 128)
        task = TaskContext(info, lambda: 0, budget, KeyGroups(128))
        node.operator.setup(OperatorContext(task, node.operator.name, uid="", counters=counters), outlet)
    chain.connect(edges or {})
    return chain


def mapping(function, name: str = "map"):
    return MapOperator(name, UserFunction(function, "map"))


def times(count: int, name: str = "flat map"):
    return FlatMapOperator(name, UserFunction(lambda value: (f"{value}{i}" for i in range(count)), "flat_map"))


def run(chain: Chain, *values) -> None:
    chain.head.process(Rows(list(values)))
    while chain.paused:
        chain.resume()


def growing():
    items: list[int] = []

    def grow(value: int) -> list[int]:
        items.append(value)
        return items

    return mapping(grow)


@pytest.mark.parametrize(("reuse", "lengths"), [(False, ["1", "2"]), (True, ["2", "2"])])
def test_objects_are_reused_within_a_chain_where_a_program_says_so(reuse: bool, lengths: list[str]) -> None:
    """Programs that change nothing would pay for copies, or others would get what they must not change."""
    log: list = []
    chain = chained((growing(), 1), (mapping(lambda items: str(len(items))), 2), (End("end", log),))
    if reuse:
        chain.reuse_objects()
    run(chain, 1, 2)
    assert log == [("end", length) for length in lengths]


def test_objects_that_leave_a_chain_are_not_reused() -> None:
    """Records that wait for their buffer would be changed before they are sent, whatever the setting says."""
    chain = chained((growing(), 1), (CollectOperator("sink", 0),))
    results: list = []
    chain.operators[1].context.deliver_result = lambda sink, values: results.extend(values)
    chain.reuse_objects()
    run(chain, 1, 2)
    assert results == [[1], [1, 2]]


def test_a_fork_gives_every_branch_everything() -> None:
    """One of two streams made from one would miss records."""
    log: list = []
    chain = chained((mapping(str.upper), 1, 2), (End("a", log),), (End("b", log),))
    run(chain, "x", "y")
    chain.head.watermark(5)
    chain.head.status(False)
    assert log == [
        *(("a", "X"), ("a", "Y"), ("b", "X"), ("b", "Y")),
        *(("a", "watermark", 5), ("b", "watermark", 5), ("a", "status", False), ("b", "status", False)),
    ]
    assert [(c.name, c.records_in, c.records_out) for c in chain.counters[1:]] == [("a", 2, 0), ("b", 2, 0)]
    assert chain.counters[0].records_out == 2


def test_the_watermark_that_an_operator_has_emitted_is_known() -> None:
    """Of two operators one of which holds event time back nobody could say which."""
    log: list = []
    chain = chained((mapping(str.upper), 1), (End("end", log),))
    assert [counters.output_watermark for counters in chain.counters] == [MIN_TIMESTAMP] * 2
    chain.head.watermark(5)
    assert [counters.output_watermark for counters in chain.counters] == [5, MIN_TIMESTAMP], "the end emits none"


def test_side_outputs_go_where_they_are_read_with_the_watermarks() -> None:
    """Windows over late records would never close."""

    class Split:
        def process_element(self, value, ctx):
            yield (SIDE, value) if value < 0 else value
            yield OutputTag("unread"), value

    log: list = []
    leaving = {4: Edge("edge", log), 5: Edge("side edge", log)}
    split = ProcessOperator("split", UserFunction(Split(), "process_element"))
    links = [1, ChainLink(SIDE, operator=2), ChainLink(edge=4), ChainLink(SIDE, edge=5)]
    chain = chained((split, *links), (End("main", log),), (End("side", log),), edges=leaving)
    run(chain, 1, -1)
    assert sorted(log) == [("edge", 1), ("main", 1), ("side", -1), ("side edge", -1)]
    log.clear()
    chain.head.watermark(9)
    assert log == [
        ("main", "watermark", 9),
        ("side", "watermark", 9),
        ("edge", Watermark(9)),
        ("side edge", Watermark(9)),
    ]


def test_an_operator_that_reads_both_outputs_gets_one_watermark() -> None:
    """It would get each watermark twice, and its edges would carry both."""
    log: list = []
    chain = chained((mapping(str), 1, ChainLink(SIDE, operator=1), ChainLink(edge=0), ChainLink(SIDE, edge=0)),
                    (End("end", log),), edges={0: Edge("edge", log)})  # fmt: skip
    chain.head.watermark(1)
    chain.head.status(False)
    assert log == [
        ("end", "watermark", 1),
        ("edge", Watermark(1)),
        ("end", "status", False),
        ("edge", WatermarkStatus(False)),
    ]


@pytest.mark.parametrize("chunk_records", [1, 2, 3, 100])
def test_a_chain_of_explosions_can_be_left_anywhere(chunk_records: int) -> None:
    """Records would be lost or reordered where one paused operator feeds another."""
    log: list = []
    chain = chained(
        (times(3, "first"), 1),
        (times(2, "second"), 2, 3),
        (times(2, "third"), 4),
        (End("fork", log),),
        (End("end", log),),
        patient=False,
        chunk_records=chunk_records,
    )
    run(chain, "a", "b")
    second = [f"{v}{i}{j}" for v in "ab" for i in range(3) for j in range(2)]
    assert [value for name, value in log if name == "fork"] == second
    assert [value for name, value in log if name == "end"] == [f"{v}{k}" for v in second for k in range(2)]


def test_nothing_new_is_given_to_an_operator_behind_which_one_is_paused() -> None:
    """Records would overtake those that a paused flat_map still holds."""
    log: list = []
    chain = chained((times(2, "first"), 1), (times(3, "second"), 2), (End("end", log),), patient=False, chunk_records=1)
    chain.head.process(Rows(["a"]))
    assert chain.paused
    assert log == [("end", "a00")]
    assert chain.resume() is False
    assert log == [("end", "a00"), ("end", "a01")]


def test_opened_from_the_end_and_closed_from_the_start() -> None:
    """An operator that emits in `open` or `close` would have no receivers yet."""
    log: list = []
    chain = chained((End("a", log), 1), (End("b", log), 2), (End("c", log),))
    chain.open()
    chain.close()
    assert log == ["open c", "open b", "open a", "close a", "close b", "close c"]
    chain.close()
    assert len(log) == 6


def test_all_are_closed_though_some_fail() -> None:
    """Connections would be left open by the failure of another function."""
    log: list = []
    chain = chained((Failing("a", log, "close"), 1), (Failing("b", log, "close"), 2), (End("c", log),))
    chain.open()
    with pytest.raises(OSError, match="a"):
        chain.close()
    assert log[3:] == ["close a", "close b", "close c"]


def test_what_failed_to_open_is_closed_and_what_was_not_opened_is_not() -> None:
    """`close` would run on functions that were never opened, and hide the first error by its own."""
    log: list = []
    chain = chained((End("a", log), 1), (Failing("b", log, "open"), 2), (End("c", log),))
    with pytest.raises(OSError, match="b"):
        chain.open()
    chain.close()
    assert log == ["open c", "open b", "close b", "close c"]


def test_a_link_leads_to_one_input_of_an_operator_that_has_several() -> None:
    """Rules would be taken for records, and event time of one stream for that of both."""
    log: list = []
    chain = chained((mapping(str), ChainLink(operator=1, input_index=1)), (TwoInputs("end", log),))
    chain.head.process(Rows([1]))
    chain.head.watermark(5)
    assert log == [("end", "1")], "the first input has no watermark yet"
    chain.operators[1].inputs()[0].process(Rows(["x"]))
    chain.operators[1].inputs()[0].watermark(3)
    assert log[1:] == [("first", "x"), ("end", "watermark", 3)]
    for ending in chain.endings():
        ending()
    assert log[3:] == [("ends", 0), ("ends", 1)]


class Choosing:
    """A key selector and partitioner with a life cycle."""

    def __init__(self, name: str, log: list) -> None:
        self.name, self.log = name, log

    def open(self, context):
        self.log.append(f"open {self.name}")

    def get_key(self, value):
        return value

    def partition(self, key, count):
        return 0

    def close(self):
        self.log.append(f"close {self.name}")


def test_what_chooses_subtasks_is_opened_before_the_first_record_and_closed() -> None:
    """In PyFlink both are called: a partitioner that loads its table in `open` would fail with the first record."""
    log: list = []
    edges = {1: Edge("hash", log), 2: Edge("custom", log)}
    edges[1].partitioner = HashPartitioner(Choosing("key", log).get_key)
    both = Choosing("both", log)
    edges[2].partitioner = CustomPartitioner(both.partition, both.get_key)
    chain = chained((End("operator", log), ChainLink(edge=1), ChainLink(edge=2)), edges=edges)
    chain.open()
    assert log == ["open key", "open both", "open operator"]
    log.clear()
    chain.close()
    assert log == ["close operator", "close key", "close both"]


def deep(count: int, log: list) -> Chain:
    """A chain of `count` maps, flat_maps and filters by turns, a fork in its middle, and an end for each branch."""
    kinds = (
        lambda: mapping(lambda value: value + 1),
        lambda: FlatMapOperator("flat map", UserFunction(lambda value: (value for _ in range(1)), "flat_map")),
        lambda: FilterOperator("filter", UserFunction(lambda value: value != 10_001, "filter")),
    )
    nodes: list = [(kinds[index % 3](), index + 1) for index in range(count)]
    middle = count // 2
    nodes[middle] = (nodes[middle][0], middle + 1, count + 1)
    return chained(*nodes, (End("end", log),), (End("branch", log),))


@pytest.mark.parametrize("patient", [True, False], ids=["in one step", "in many steps"])
def test_a_chain_may_have_thousands_of_operators(patient: bool) -> None:
    """A generated program of 300 maps would end with a RecursionError."""
    log: list = []
    count = 2_001
    chain = deep(count, log)
    chain.open()
    take = chain.entry(chain.head.process)
    for values in ([0, 1], [10_001 - count // 3, 2]):
        if patient:
            take(Rows(values))
        else:
            chain.head.process(Rows(values))
        while chain.paused:
            chain.resume()
    for call in (lambda: chain.head.watermark(5), lambda: chain.head.status(False), *chain.endings()):
        call()
        while chain.paused:
            chain.resume()
    added = count // 3
    everything = [0 + added, 1 + added, 2 + added]
    assert [value for name, *value in log if name == "end"] == [
        *([value] for value in everything),
        ["watermark", 5],
        ["status", False],
    ]
    assert [value for name, *value in log if name == "branch"][-2:] == [["watermark", 5], ["status", False]]
    assert [chain.counters[index].records_in for index in (1, 1_000, count, count + 1)] == [4, 4, 3, 4]
    chain.close()
    assert log[-2:] == ["close end", "close branch"]


def test_an_error_deep_in_a_chain_names_operator_and_value() -> None:
    """The user of a long chain would not know which of its functions has failed."""
    chain = chained(
        *((mapping(lambda value: value, f"map {index}"), index + 1) for index in range(500)),
        (mapping(lambda value: 1 // value, "the one"), 501),
        (End("end", []),),
    )
    with pytest.raises(UserFunctionError, match="the one") as raised:
        chain.entry(chain.head.process)(Rows([3, 0]))
    assert "value 0\n" in str(raised.value)


def test_a_user_s_function_has_room_deep_in_a_chain() -> None:
    """A function that recurses would work in a short chain, and fail in a long one."""

    def depth(value: int) -> int:
        return 0 if not value else 1 + depth(value - 1)

    log: list = []
    chain = chained(*((mapping(depth if index == 499 else abs), index + 1) for index in range(500)), (End("end", log),))
    chain.entry(chain.head.process)(Rows([400]))
    assert log == [("end", 400)]


def test_what_is_deferred_waits_for_an_operator_that_has_paused() -> None:
    """A function that does not end would be given a second chunk, and forget the first."""
    log: list = []
    maps = [(mapping(lambda value: value), index + 1) for index in range(120)]
    chain = chained(*maps[:60], (times(5), 61), *maps[61:], (End("end", log),), patient=False, chunk_records=2)
    chain.entry(chain.head.process)(Rows(["a", "b"]))
    chain.head.watermark(7)
    assert chain.paused and len(log) == 2
    while chain.paused:
        chain.resume()
    assert log == [*(("end", f"{value}{i}") for value in "ab" for i in range(5)), ("end", "watermark", 7)]
    assert chain.sections == 3


def test_a_cancelled_chain_holds_nothing() -> None:
    """A task that is cancelled with records under way would never end."""
    chain = chained(*((mapping(lambda value: value), index + 1) for index in range(120)), (End("end", []),))
    chain.head.process(Rows([1]))
    assert chain.paused
    chain.abandon()
    assert not chain.paused
