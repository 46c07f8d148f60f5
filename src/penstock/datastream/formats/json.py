"""JSON lines, and JSON messages of values and rows. `penstock.common.Encoder.json_encoder()` writes lines."""

from penstock.common.doors.door import publish
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.formats.json_row import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.connectors.formats.json_values import JsonDeserializationSchema, JsonSerializationSchema

__all__ = [
    "JsonDeserializationSchema",
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
]

publish(__name__, __all__)
