"""LookupJoin."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.lookup import LookupRequest, TableLookup
from penstock.table.connectors.retried_lookup import RetriedLookup
from penstock.table.connectors.table_connector import METADATA, connector_of
from penstock.table.execution.nodes.scan import with_secrets
from penstock.table.execution.pushed_down import PushedDown, pushed_down
from penstock.table.execution.registry import translates
from penstock.table.execution.rex_terms import all_of
from penstock.table.execution.translation import Translation
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.operators.joins.join_types import LEFT
from penstock.table.operators.joins.lookup_join import Lookup, LookupJoinOperator
from penstock.table.operators.joins.lookup_memory import LookupMemoryOperator
from penstock.table.operators.table_columns import TableColumns, table_columns, width_of
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.join_nodes import FieldReferenceKey, LookupJoin
from penstock.table.planner.nodes.tables import ContextResolvedTable
from penstock.table.planner.rex_nodes import AnyRexNode, RexInputRef


@translates(LookupJoin)
def lookup_join(translation: Translation, node: LookupJoin, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a LookupJoin. An asynchronous one, which is a hint, is one of whole chunks."""
    received, given = translation.input(node), translation.columns(node)
    rest = TableColumns(pyarrow.schema(list(given.schema)[width_of(received) :]))
    found = table_columns(node.temporal_table.output_type.logical)
    spec = node.temporal_table.table_source
    table = with_secrets(spec.table, translation)
    pushed = pushed_down(translation, spec.abilities, table)
    source, key_columns = _source(translation, node, table, pushed)
    projection = node.projection_on_temporal_table
    if projection is None and pushed.condition_paths:
        # Columns that only conditions read are left out behind them.
        projection = tuple(RexInputRef(index=place, type=DataType(kind)) for place, kind in enumerate(pushed.types))
        rest = found
    conditions = [one for one in (pushed.condition, node.filter_on_temporal_table) if one is not None]
    lookup = Lookup(
        source,
        translation.expressions(*_keys(translation, node)),
        key_columns,
        found if projection is None else rest,
        before=translation.condition(node.pre_filter_condition),
        condition=translation.condition(all_of(conditions) if conditions else None),
        projection=None if projection is None else translation.expressions(*projection),
    )
    join = LookupJoinOperator(
        "LookupJoin",
        lookup,
        is_left=node.join_type == LEFT,
        condition=translation.condition(node.join_condition),
        received=received,
        given=given,
    )
    if not node.require_upsert_materialize:
        return translation.operator(node, join, inputs)
    keys = node.input_upsert_key
    if keys is None:
        raise translation.unsupported("changes are looked up by the key of the query: give its table a PRIMARY KEY")
    memory = LookupMemoryOperator(join, [received.names[key] for key in keys], ttl_ms=translation.ttl_ms(node))
    return translation.operator(node, memory, [translation.hashed(inputs[0], received, keys)])


def _source(
    translation: Translation, node: LookupJoin, table: ContextResolvedTable, pushed: PushedDown
) -> tuple[TableLookup, TableColumns]:
    """Return the connector's lookup, and the columns of the keys."""
    paths = [*pushed.paths, *pushed.condition_paths]
    if any(len(path) > 1 for path in paths):
        raise translation.unsupported("fields of rows can't be looked up: select the whole column")
    types = [*pushed.types, *pushed.condition_types]
    fields = [pyarrow.field(path[0], arrow_type(kind)) for path, kind in zip(paths, types, strict=True)]
    keys = TableColumns(pyarrow.schema([fields[place] for place in node.lookup_keys]))
    of_metadata = {key: METADATA + key for key in pushed.metadata}
    zone = translation.zone
    request = LookupRequest(table, keys, TableColumns(pyarrow.schema(fields)), metadata=of_metadata, zone=zone)
    source = connector_of(table).lookup(request)
    retry = node.retry_options
    if retry is not None:
        source = RetriedLookup(source, attempts=retry.max_attempts, delay_ms=retry.fixed_delay)
    return source, keys


def _keys(translation: Translation, node: LookupJoin) -> list[AnyRexNode]:
    (origin,) = translation.plan.inputs_of(node)
    types = origin.output_type.fields
    return [
        RexInputRef(index=key.index, type=DataType(types[key.index]))
        if isinstance(key, FieldReferenceKey)
        else key.literal
        for key in node.lookup_keys.values()
    ]
