"""Plans in JSON become nodes; what is not known in them is refused by name."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.table.planner.plan_documents import CALC, SCAN, SINK, WATERMARK, call, document, literal, node, ref

from penstock.table.logical_types import parse
from penstock.table.planner.compiled_plan import node_types, read_plan
from penstock.table.planner.data_types import ROWTIME, read_data_type
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes.aggregate_nodes import GroupAggregate
from penstock.table.planner.nodes.join_nodes import MultiJoin
from penstock.table.planner.nodes.match_nodes import SKIP_TO_LAST, SKIP_TO_NEXT_ROW, AfterMatch, Match, PatternElement
from penstock.table.planner.nodes.row_nodes import Calc, WatermarkAssigner
from penstock.table.planner.nodes.tables import ProjectPushDown, TableSourceScan
from penstock.table.planner.rex_nodes import RexCall, RexInputRef

FLINKS_PLANS = Path(__file__).parents[5] / "shared/data/flink-table-tests/plans.jsonl.gz"
PLANS_READ = 236
WITHOUT_OPERATOR = {
    "async-calc", "async-correlate", "delta-join", "ml-predict-table-function", "process-table-function",
    "vector-search-table-function",
}  # fmt: skip


def test_a_chain() -> None:
    """Nothing of a plan would arrive."""
    plan = read_plan(document(SCAN, WATERMARK, CALC, SINK))
    scan, watermark, calc, sink = plan.nodes.values()
    assert isinstance(scan, TableSourceScan)
    assert isinstance(watermark, WatermarkAssigner)
    assert isinstance(calc, Calc)
    assert plan.sinks == [sink]
    assert plan.inputs_of(calc) == (watermark,)
    assert plan.inputs_of(scan) == ()
    (pushed,) = scan.scan_table_source.abilities
    assert isinstance(pushed, ProjectPushDown)
    assert pushed.projected_fields == ((0,), (2, 1))
    assert scan.scan_table_source.table.resolved_table is not None
    assert scan.scan_table_source.table.resolved_table.options == {"connector": "any"}
    assert watermark.output_type.field_time_attributes == (None, ROWTIME)
    assert watermark.output_type.fields[1] == parse("TIMESTAMP(3)")
    (projected,) = calc.projection
    assert isinstance(projected, RexCall)
    assert projected.name == "+"
    assert projected.operands[0] == RexInputRef(index=0, type=read_data_type("BIGINT"))


def test_two_inputs_keep_their_order() -> None:
    """Left and right of a join would be exchanged."""
    union = node(9, "stream-exec-union_1", "ROW<`b` BIGINT>")
    other = {**SCAN, "id": 7}
    edge = {"shuffle": {"type": "FORWARD"}, "shuffleMode": "PIPELINED", "target": 9}
    plan = read_plan(document(other, SCAN, union, edges=[{**edge, "source": 7}, {**edge, "source": 1}]))
    assert [one.id for one in plan.inputs_of(plan.nodes[9])] == [7, 1]


def test_aggregates() -> None:
    """An aggregate would be another, or see other columns."""
    counted = {
        "name": "n", "internalName": "$COUNT$1", "argList": [1], "filterArg": 2, "distinct": True,
        "approximate": False, "ignoreNulls": False, "type": "BIGINT NOT NULL",
    }  # fmt: skip
    grouped = node(
        2,
        "stream-exec-group-aggregate_1",
        "ROW<`a` BIGINT, `n` BIGINT NOT NULL>",
        grouping=[0],
        aggCalls=[counted, {**counted, "internalName": None, "systemName": "mine"}],
        aggCallNeedRetractions=[False, False],
        generateUpdateBefore=True,
        needRetraction=False,
        state=[{"index": 0, "ttl": "1 d", "name": "groupAggregateState"}],
    )
    (aggregate,) = read_plan(document(grouped)).nodes.values()
    assert isinstance(aggregate, GroupAggregate)
    assert [one.function for one in aggregate.agg_calls] == ["COUNT", "mine"]
    assert (aggregate.agg_calls[0].filter_arg, aggregate.agg_calls[0].distinct) == (2, True)
    assert aggregate.state is not None
    assert aggregate.state[0].ttl == "1 d"


def quantified(inner: Any, at_least: int, at_most: int, is_reluctant: bool = False) -> dict[str, Any]:
    bounds = [literal(at_least, "INT NOT NULL"), literal(at_most, "INT NOT NULL")]
    return call("PATTERN_QUANTIFIER", "NULL", inner, *bounds, literal(is_reluctant, "BOOLEAN NOT NULL"))


def variable(name: str) -> dict[str, Any]:
    return literal(name, "CHAR(1) NOT NULL")


def concat(*operands: Any) -> dict[str, Any]:
    return {"kind": "CALL", "syntax": "BINARY", "sqlKind": "PATTERN_CONCAT", "operands": operands, "type": "NULL"}


def matching(pattern: Any, **changes: Any) -> dict[str, Any]:
    """A node MATCH_RECOGNIZE with this pattern."""
    last = call("LAST", "BIGINT", {"kind": "PATTERN_INPUT_REF", "alpha": "B", "inputIndex": 0, "type": "BIGINT"})
    order = {"index": 1, "isAscending": True, "nullIsLast": False}
    spec = {
        "pattern": pattern,
        "patternDefinitions": {"B": call(">", "BOOLEAN", last, literal(1, "BIGINT NOT NULL"))},
        "measures": {"x": call("FINAL", "BIGINT", last)},
        "after": {**literal("SKIP_TO_NEXT_ROW", {"type": "SYMBOL"}), "symbol": "MATCH_RECOGNIZE_AFTER_OPTION"},
        "subsets": {"U": ["A", "B"]},
        "allRows": False,
        "partition": {"fields": [0]},
        "orderBy": {"fields": [order]},
        "interval": None,
        **changes,
    }
    return node(4, "stream-exec-match_1", "ROW<`a` BIGINT, `x` BIGINT>", matchSpec=spec)


def test_patterns() -> None:
    """MATCH_RECOGNIZE would find other rows."""
    pattern = concat(
        concat(concat(variable("A"), quantified(variable("B"), 1, -1)), quantified(variable("C"), -1, 3)),
        quantified(variable("D"), 0, 1, is_reluctant=True),
    )
    within = literal("3600000", "INTERVAL HOUR NOT NULL")
    after = call("SKIP TO LAST", "NULL", variable("B"))
    (found,) = read_plan(document(matching(pattern, interval=within, after=after))).nodes.values()
    assert isinstance(found, Match)
    assert found.match_spec.elements == (
        PatternElement("A"),
        PatternElement("B", 1, None),
        PatternElement("C", 0, 3),
        PatternElement("D", 0, 1, greedy=False),
    )
    assert found.match_spec.within_ms == 3_600_000
    assert found.match_spec.after_match == AfterMatch(SKIP_TO_LAST, "B")
    assert found.match_spec.subsets == {"U": ("A", "B")}
    (simple,) = read_plan(document(matching(variable("A")))).nodes.values()
    assert isinstance(simple, Match)
    assert simple.match_spec.after_match == AfterMatch(SKIP_TO_NEXT_ROW)
    assert (simple.match_spec.elements, simple.match_spec.within_ms) == ((PatternElement("A"),), None)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (quantified(concat(variable("A"), variable("B")), 1, -1), r"groups with a quantifier, such as \(A B\)\+"),
        (call("|", "NULL", variable("A"), variable("B")), r"alternatives \(A \| B\)"),
        (concat(variable("A"), call("PATTERN_PERMUTE", "NULL", variable("B"))), "PERMUTE in a PATTERN"),
        (call("PATTERN_EXCLUDE", "NULL", variable("B")), "exclusions"),
    ],
)
def test_patterns_that_flink_does_not_run(pattern: Any, message: str) -> None:
    """A pattern would match something else: the planner plans it, and Flink's runtime refuses it."""
    with pytest.raises(UnsupportedPlanError, match=rf"'match' .*{message}"):
        read_plan(document(matching(pattern)))
    with pytest.raises(UnsupportedPlanError, match="ALL ROWS PER MATCH is not supported"):
        read_plan(document(matching(variable("A"), allRows=True)))


def test_a_join_of_several_inputs() -> None:
    """Columns of another input would be compared."""
    equal = call("=", "BOOLEAN", ref(0, "BIGINT"), ref(1, "BIGINT"))
    pair = {"leftInputId": 0, "leftFieldIndex": 0, "rightInputId": 1, "rightFieldIndex": 0}
    joined = node(
        9,
        "stream-exec-multi-join_1",
        "ROW<`a` BIGINT, `b` BIGINT>",
        joinTypes=["INNER", "LEFT"],
        joinConditions=[literal(True, "BOOLEAN NOT NULL"), equal],
        multiJoinCondition=None,
        joinAttributeMap={"1": [pair]},
        inputUniqueKeys=[[[0]], []],
    )
    (found,) = read_plan(document(joined)).nodes.values()
    assert isinstance(found, MultiJoin)
    assert found.join_attribute_map[1][0].right_input_id == 1
    assert found.join_types == ("INNER", "LEFT")
    assert found.input_unique_keys == (((0,),), ())


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("[]", "not a compiled plan of Flink's"),
        (document(SCAN, flinkVersion="3.0"), r"compiled by Flink 3.0; plans of 2.3 and older are supported"),
        (document(node(1, "stream-exec-teleport_1", "ROW<`a` INT>")), r"node 'teleport' .* is not supported"),
        (document({**CALC, "type": "stream-exec-calc_7"}), r"node 'calc' .* has version 7; supported: 1. Compile"),
        (document({**CALC, "type": "batch-exec-calc_1"}), "is of a batch job. Set execution.runtime-mode to STREAMING"),
        (document({**CALC, "offset": 3}), r"node 'calc' .*of the test\) has a part .* unknown field `offset`"),
        (document({**CALC, "outputType": {"type": "DISTINCT_TYPE"}}), "'calc' .*: a column of the type DISTINCT_TYPE"),
        (
            document({**CALC, "condition": {"kind": "TABLE_ARG_CALL", "inputIndex": 0, "type": "INT"}}),
            "'calc' .* has a part that is not supported",
        ),
    ],
)
def test_what_is_not_known_is_refused(plan: str, message: str) -> None:
    """A job would ignore a part of its plan, and give other rows than Flink."""
    with pytest.raises(UnsupportedPlanError, match=message):
        read_plan(plan)


def test_edges_of_batch_jobs() -> None:
    """A sorted exchange would become an unsorted one."""
    edges = [{"source": 1, "target": 3, "shuffle": {"type": "FORWARD"}, "shuffleMode": "BATCH"}]
    with pytest.raises(UnsupportedPlanError, match="plans of batch jobs are not supported"):
        read_plan(document(SCAN, CALC, edges=edges))


@pytest.mark.parametrize(
    ("stated", "logical"),
    [
        ("VARCHAR(2147483647) NOT NULL", "STRING NOT NULL"),
        ({"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 3, "nullable": False}, "TIMESTAMP_LTZ(3) NOT NULL"),
        ({"type": "ARRAY", "elementType": {**{"type": "SYMBOL"}, "nullable": False}}, "ARRAY<SYMBOL NOT NULL>"),
        ({"type": "MAP", "keyType": "INT", "valueType": "STRING", "nullable": False}, "MAP<INT, STRING> NOT NULL"),
        ({"type": "MULTISET", "elementType": "INT"}, "MULTISET<INT>"),
        ({"type": "ROW", "nullable": False, "fields": [{"name": "x", "fieldType": "INT"}]}, "ROW<`x` INT> NOT NULL"),
    ],
)
def test_types(stated: Any, logical: str) -> None:
    """A column would have another type."""
    assert str(read_data_type(stated).logical) == logical


def test_equal_expressions_are_one() -> None:
    """A common part of several expressions would be computed several times."""
    expression = call("+", "BIGINT", ref(0, "BIGINT"), literal(1, "INT NOT NULL"))
    plan = read_plan(document({**CALC, "projection": [expression, expression]}))
    (calc,) = plan.nodes.values()
    assert isinstance(calc, Calc)
    assert len(set(calc.projection)) == 1


def test_flinks_own_plans() -> None:
    """Plans of Flink's tests would be refused though there is an operator for all that is in them."""
    if not FLINKS_PLANS.exists():
        pytest.skip("the shared data with Flink's plans is not here")
    read, refused, known = 0, Counter[str](), {one.rpartition("_")[0] for one in node_types()}
    with gzip.open(FLINKS_PLANS, "rt", encoding="utf-8") as file:
        for line in file:
            plan = json.loads(line)["plan"]
            kinds = {one["type"].rpartition("_")[0] for one in plan["nodes"]}
            if any(kind.startswith("batch") for kind in kinds):
                continue
            try:
                read_plan(json.dumps(plan))
                read += 1
            except UnsupportedPlanError:
                refused.update(kind.removeprefix("stream-exec-") for kind in kinds - known or {"known nodes alone"})
    assert read == PLANS_READ
    assert set(refused) == WITHOUT_OPERATOR
