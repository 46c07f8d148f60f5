"""`'format' = 'json'`. Source: Flink docs, "JSON Format"."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import pyarrow

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, EnumType, TextType
from penstock.table.connectors.formats.json_decoding import JsonDecoder
from penstock.table.connectors.formats.json_encoding import JsonEncoder, JsonWriting
from penstock.table.connectors.formats.json_values import JsonReading
from penstock.table.connectors.formats.message_format import Encoder, MessageDecoder, MessageFormat


class _NullKeys(enum.Enum):
    FAIL = "FAIL"
    DROP = "DROP"
    LITERAL = "LITERAL"


FAIL_ON_MISSING = option("fail-on-missing-field", BooleanType(), False)
IGNORE_ERRORS = option("ignore-parse-errors", BooleanType(), False)
TIMESTAMPS = option("timestamp-format.standard", TextType(), "SQL")
NULL_KEYS = option("map-null-key.mode", EnumType(_NullKeys), _NullKeys.FAIL)
NULL_KEY = option("map-null-key.literal", TextType(), "null")
PLAIN_DECIMALS = option("encode.decimal-as-plain-number", BooleanType(), False)
IGNORE_NULLS = option("encode.ignore-null-fields", BooleanType(), False)
JSON_PARSER = option("decode.json-parser.enabled", BooleanType(), True)
"""Which of two decoders Flink uses; both give the same rows, and so does this one."""
_STANDARDS = {"SQL": " ", "ISO-8601": "T"}


class JsonFormat(MessageFormat):
    """Rows as JSON objects."""

    name = "json"
    options: ClassVar[tuple[ConfigOption[Any], ...]] = (
        FAIL_ON_MISSING,
        IGNORE_ERRORS,
        TIMESTAMPS,
        NULL_KEYS,
        NULL_KEY,
        PLAIN_DECIMALS,
        IGNORE_NULLS,
        JSON_PARSER,
    )

    def check(self) -> None:
        if self.get(FAIL_ON_MISSING) and self.get(IGNORE_ERRORS):
            raise ValueError("fail-on-missing-field and ignore-parse-errors can't both be true")
        if self.get(TIMESTAMPS) not in _STANDARDS:
            raise ValueError(f"timestamp-format.standard must be SQL or ISO-8601, got {self.get(TIMESTAMPS)!r}")

    def decoder(self, schema: pyarrow.Schema) -> MessageDecoder:
        reading = JsonReading(
            separator=_STANDARDS[self.get(TIMESTAMPS)],
            fails_on_missing=self.get(FAIL_ON_MISSING),
            ignores_errors=self.get(IGNORE_ERRORS),
        )
        return JsonDecoder(schema, reading)

    def encoder(self, schema: pyarrow.Schema) -> Encoder:
        mode = self.get(NULL_KEYS)
        writing = JsonWriting(
            separator=_STANDARDS[self.get(TIMESTAMPS)],
            drops_null_keys=mode is _NullKeys.DROP,
            null_key=self.get(NULL_KEY) if mode is _NullKeys.LITERAL else None,
            plain_decimals=self.get(PLAIN_DECIMALS),
            ignores_nulls=self.get(IGNORE_NULLS),
        )
        return JsonEncoder(schema, writing)
