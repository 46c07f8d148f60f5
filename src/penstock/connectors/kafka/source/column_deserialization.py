"""Convert the messages of a partition to batches of columns: all at once, or by their values if one is unusual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.api.output_tag import OutputTag
from penstock.common.columns.named_failures import named_batch
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.sided_batch import SidedBatch
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import ColumnDecoder
from penstock.connectors.kafka.source.deserialization import Deserializer, place_of, timestamps_of


class ColumnDeserializer:
    """Apply a decoder. `values`: the deserializer of rows, which reads messages that the decoder does not.

    So values, skipped messages and errors are those of rows.
    """

    def __init__(self, columns: RecordColumns, decode: ColumnDecoder, values: Deserializer) -> None:
        self._columns = columns
        self._decode = decode
        self._values = values

    def values_of(self, messages: Sequence[Any]) -> tuple[pyarrow.RecordBatch | SidedBatch, list[int] | None]:
        """Return a batch and its timestamps (ms; None if one is missing), in order. Raise SourceError by the policy."""
        contents = [message.value() for message in messages]
        if None in contents:
            messages = [message for message, content in zip(messages, contents, strict=True) if content is not None]
            contents = [content for content in contents if content is not None]
        try:
            return self._decode(contents), timestamps_of(messages)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            return self._by_values(*self._values.readable(messages))

    def _by_values(self, values: list[Any], messages: Sequence[Any]) -> tuple[Any, list[int] | None]:
        sides = [at for at, value in enumerate(values) if type(value) is tuple and isinstance(value[0], OutputTag)]
        times = timestamps_of(messages)
        if not sides:
            return self._batch_of(values, messages), times
        rows = sorted(set(range(len(values))).difference(sides))
        batch = self._batch_of([values[at] for at in rows], [messages[at] for at in rows])
        of_rows = None if times is None else [times[at] for at in rows]
        return SidedBatch(batch, sides, [values[at] for at in sides]), of_rows

    def _batch_of(self, values: list[Any], messages: Sequence[Any]) -> pyarrow.RecordBatch:
        def error_of(at: int, reason: str) -> SourceError:
            return SourceError(f"cannot read {place_of(messages[at])}: {reason}")

        return named_batch(self._columns, values, error_of)
