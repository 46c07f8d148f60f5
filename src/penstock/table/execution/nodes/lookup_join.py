"""LookupJoin."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.lookup import LookupRequest, TableLookup
from penstock.table.connectors.retried_lookup import RetriedLookup
from penstock.table.connectors.table_connector import connector_of
from penstock.table.execution.nodes.scan import METADATA, pushed_down, with_secrets
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import ZONE, Translation
from penstock.table.operators.lookup_join import Lookup, LookupJoinOperator
from penstock.table.operators.lookup_memory import LookupMemoryOperator
from penstock.table.operators.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns, table_columns, width_of
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.join_nodes import FieldReferenceKey, LookupJoin
from penstock.table.planner.rex_nodes import AnyRexNode, RexInputRef


@translates(LookupJoin)
def lookup_join(translation: Translation, node: LookupJoin, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a LookupJoin. An asynchronous one, which is a hint, is one of whole chunks."""
    received, given = translation.input(node), translation.columns(node)
    rest = TableColumns(pyarrow.schema(list(given.schema)[width_of(received) :]))
    found = table_columns(node.temporal_table.output_type.logical)
    source, key_columns = _source(translation, node, found)
    projection = node.projection_on_temporal_table
    lookup = Lookup(
        source,
        translation.expressions(*_keys(translation, node)),
        key_columns,
        found if projection is None else rest,
        before=_condition(translation, node.pre_filter_condition),
        condition=_condition(translation, node.filter_on_temporal_table),
        projection=None if projection is None else translation.expressions(*projection),
    )
    join = LookupJoinOperator(
        "LookupJoin",
        lookup,
        is_left=node.join_type == "LEFT",
        condition=_condition(translation, node.join_condition),
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


def _source(translation: Translation, node: LookupJoin, found: TableColumns) -> tuple[TableLookup, TableColumns]:
    """Return the connector's lookup, and the columns of the keys."""
    spec = node.temporal_table.table_source
    table = with_secrets(spec.table, translation)
    paths, metadata, _ = pushed_down(translation, spec.abilities, table)
    if any(len(path) > 1 for path in paths):
        raise translation.unsupported("fields of rows can't be looked up: select the whole column")
    names = [path[0] for path in paths]
    fields = [pyarrow.field(name, field.type) for name, field in zip(names, found.schema, strict=True)]
    keys = TableColumns(pyarrow.schema([fields[place] for place in node.lookup_keys]))
    of_metadata = {key: METADATA + key for key in metadata}
    zone = translation.options.get(ZONE, "UTC")
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


def _condition(translation: Translation, condition: AnyRexNode | None) -> RowExpressions | None:
    return None if condition is None else translation.expressions(condition)
