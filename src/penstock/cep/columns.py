"""Patterns on streams of columns: where the operator of a pattern takes columns."""

from __future__ import annotations

from typing import Any

from penstock.cep.operators.cep_operator import CepOperator
from penstock.common.functions.field_key import FieldKey
from penstock.datastream.column_types import given_columns
from penstock.datastream.keyed_stream import KeyedStream


def on_columns(operator: CepOperator, stream: KeyedStream[Any, Any]) -> CepOperator:
    """Return the operator that takes the columns of a stream; the given one, on rows, if it has no columns.

    Rows are also taken if the key is not made of fields whose values are those of the records: then the exchange
    carries rows.
    """
    columns, select = given_columns(stream._transformation), stream.key_selector
    if columns is None or not isinstance(select, FieldKey) or not all(map(columns.has_keys, select.fields)):
        return operator
    from penstock.cep.operators.column_operator import ColumnCepOperator

    return ColumnCepOperator(operator, select.fields, columns)
