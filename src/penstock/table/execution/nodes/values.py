"""Values: rows of literals."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.batch_source import BatchSource
from penstock.table.execution.column_source import ColumnSourceTransformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.functions.columns import as_array
from penstock.table.operators.table_columns import NO_COLUMNS
from penstock.table.planner.literals import literal_value
from penstock.table.planner.nodes.row_nodes import Values


@translates(Values)
def values(translation: Translation, node: Values, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Values."""
    columns = translation.columns(node)
    if columns.names == (NO_COLUMNS,):
        arrays = [pyarrow.nulls(len(node.tuples), pyarrow.bool_())]
    else:
        parts = [
            [as_array(literal_value(row[place]), 1).cast(field.type) for row in node.tuples]
            for place, field in enumerate(columns.schema)
        ]
        arrays = [
            pyarrow.concat_arrays(of_column) if of_column else pyarrow.array([], field.type)
            for of_column, field in zip(parts, columns.schema, strict=True)
        ]
    table = pyarrow.Table.from_arrays(arrays, schema=columns.schema)
    made = ColumnSourceTransformation(
        translation.program.next_id(), "Values", BatchSource(table), columns=columns, parallelism=1
    )
    made.parallelism_fixed = "one subtask reads literals, to keep their order"
    translation.name(made, node)
    return made
