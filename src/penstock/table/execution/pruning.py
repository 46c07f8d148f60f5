"""Which fields of rows a plan reads of a table. The planner asks for whole rows where expressions read a few fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow

from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.nodes.row_nodes import Calc, DropUpdateBefore, MiniBatchAssigner
from penstock.table.planner.nodes.tables import TableSourceScan, WatermarkPushDown
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexFieldAccess, RexInputRef

Path = tuple[str, ...]
_LETS_PASS = (MiniBatchAssigner, DropUpdateBefore)


def fields_read(plan: CompiledPlan, scan: TableSourceScan) -> list[frozenset[Path] | None]:
    """Return for each column of a scan the paths of the fields that are read; None: the column itself."""
    found: list[set[Path]] = [set() for _ in scan.output_type.names]
    for node in _readers(plan, scan):
        if not isinstance(node, Calc):
            return [None] * len(found)
        _read([*node.projection, *([] if node.condition is None else [node.condition])], found)
    for ability in scan.scan_table_source.abilities:
        if isinstance(ability, WatermarkPushDown):
            also = [] if ability.rowtime_expr is None else [ability.rowtime_expr]
            _read([ability.watermark_expr, *also], found)
    return [None if () in paths or not paths else frozenset(paths) for paths in found]


def pruned(kind: pyarrow.DataType, paths: Collection[Path] | None) -> pyarrow.DataType:
    """Return a type of rows with these fields only; None: all of it."""
    if paths is None or () in paths or not pyarrow.types.is_struct(kind):
        return kind
    fields = []
    for field in kind:
        below = [path[1:] for path in paths if path[0] == field.name]
        if below:
            fields.append(pyarrow.field(field.name, pruned(field.type, below)))
    return pyarrow.struct(fields)


def _readers(plan: CompiledPlan, node: ExecNode) -> Iterator[ExecNode]:
    """Yield the nodes that rows of a node come to, behind those that only let them pass."""
    for reader in plan.nodes.values():
        if node in plan.inputs_of(reader):
            yield from _readers(plan, reader) if isinstance(reader, _LETS_PASS) else [reader]


def _read(expressions: Sequence[AnyRexNode], found: list[set[Path]]) -> None:
    for node in expressions:
        path: list[str] = []
        inner = node
        while isinstance(inner, RexFieldAccess):
            path.insert(0, inner.name)
            inner = inner.expr
        if isinstance(inner, RexInputRef):
            found[inner.index].add(tuple(path))
        elif isinstance(inner, RexCall):
            _read(inner.operands, found)
