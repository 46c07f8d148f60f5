"""The planner leaves work to the source of a table: columns, metadata, the watermark, and which rows it gives.

The planner of penstock leaves no conditions to a source. Plans that were compiled for connectors of Flink's may: then
rows are filtered behind the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow

from penstock.table.connectors.table_connector import METADATA, physical_columns
from penstock.table.execution.pruning import Path
from penstock.table.execution.rex_terms import all_of, any_of, equal_to_text
from penstock.table.execution.translation import Translation
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import LogicalType
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.tables import (
    ContextResolvedTable,
    FilterPushDown,
    LimitPushDown,
    PartitionPushDown,
    ProjectPushDown,
    ReadingMetadata,
    SourceAbility,
    SourceWatermark,
    WatermarkPushDown,
)
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexInputRef
from penstock.table.planner.rex_trees import with_inputs


@dataclass
class PushedDown:
    """`paths` and `types`: the columns that the plan reads. `metadata`: key -> column's name and type.

    `watermark`: an expression over these columns; `of_source`: watermarks come with the rows of the source.
    `conditions`: on the columns `paths` and, behind them, `condition_paths`, which the plan does not read.
    """

    paths: list[Path]
    types: list[LogicalType]
    metadata: dict[str, tuple[str, pyarrow.DataType]] = field(default_factory=dict)
    watermark: WatermarkPushDown | None = None
    of_source: bool = False
    conditions: list[AnyRexNode] = field(default_factory=list)
    condition_paths: list[Path] = field(default_factory=list)
    condition_types: list[LogicalType] = field(default_factory=list)

    @property
    def condition(self) -> AnyRexNode | None:
        """All conditions; None: there is none."""
        return all_of(self.conditions) if self.conditions else None


def pushed_down(
    translation: Translation, abilities: Sequence[SourceAbility], table: ContextResolvedTable
) -> PushedDown:
    """Return what the source has to do. Raises UnsupportedPlanError for what it can't.

    Abilities come one after the other: a condition is on the columns that there are at its place.
    """
    columns = physical_columns(table)
    found = PushedDown([(one.name,) for one in columns], list(table.resolved.schema.physical_row.children))
    waiting: list[tuple[AnyRexNode, list[Path], list[LogicalType]]] = []
    for ability in abilities:
        if isinstance(ability, ProjectPushDown):
            found.paths = [_path(columns, indices) for indices in ability.projected_fields]
            found.types = list(ability.produced_type.fields)
        elif isinstance(ability, ReadingMetadata):
            kinds = list(ability.produced_type.fields[len(found.paths) :])
            found.metadata = {
                key: (METADATA + key, arrow_type(kind)) for key, kind in zip(ability.metadata_keys, kinds, strict=True)
            }
            found.paths = [*found.paths, *((name,) for name, _ in found.metadata.values())]
            found.types = [*found.types, *kinds]
        elif _is_of_source(ability):
            found.of_source = True
        elif isinstance(ability, WatermarkPushDown):
            found.watermark = ability
        elif isinstance(ability, FilterPushDown):
            waiting += [(one, found.paths, found.types) for one in ability.predicates]
        elif isinstance(ability, PartitionPushDown):
            waiting.append((_of_partitions(ability, found), found.paths, found.types))
        elif not isinstance(ability, LimitPushDown):
            # The plan limits rows itself: a source need not.
            raise translation.unsupported(f"{type(ability).__name__} is not supported by the connector")
    for condition, paths, kinds in waiting:
        found.conditions.append(_moved(condition, found, paths, kinds))
    return found


def _moved(condition: AnyRexNode, found: PushedDown, paths: Sequence[Path], types: Sequence[LogicalType]) -> AnyRexNode:
    """Return a condition on other columns as one on those that are read in the end; columns are added for it."""

    def moved(node: RexInputRef) -> RexInputRef:
        path = paths[node.index]
        if path not in found.paths and path not in found.condition_paths:
            found.condition_paths.append(path)
            found.condition_types.append(types[node.index])
        return RexInputRef(index=[*found.paths, *found.condition_paths].index(path), type=node.type)

    return with_inputs(condition, moved)


def _of_partitions(ability: PartitionPushDown, found: PushedDown) -> AnyRexNode:
    """Return the condition that a row is of one of the partitions, whose values are texts."""
    names = [path[0] for path in found.paths]
    of_each = []
    for partition in ability.partitions:
        places = [(names.index(name), value) for name, value in partition.items()]
        of_each.append(
            all_of(
                [
                    equal_to_text(RexInputRef(index=place, type=DataType(found.types[place])), value)
                    for place, value in places
                ]
            )
        )
    return any_of(of_each)


def _is_of_source(ability: object) -> bool:
    if isinstance(ability, SourceWatermark):
        return True
    expression = ability.watermark_expr if isinstance(ability, WatermarkPushDown) else None
    return isinstance(expression, RexCall) and expression.name == "SOURCE_WATERMARK"


def _path(columns: Sequence[pyarrow.Field], indices: Sequence[int]) -> Path:
    field = columns[indices[0]]
    names = [field.name]
    for index in indices[1:]:
        field = field.type.field(index)
        names.append(field.name)
    return tuple(names)
