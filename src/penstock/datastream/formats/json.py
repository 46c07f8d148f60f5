"""JSON lines, and rows as JSON messages. To write lines: `penstock.common.serialization.Encoder.json_encoder()`."""

from penstock.common.door import publish
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.formats.json_row import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

publish(__name__, __all__)
