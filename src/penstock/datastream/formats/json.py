"""JSON lines. To write them: `penstock.common.serialization.Encoder.json_encoder()`."""

from penstock.connectors.file_system.json_format import JsonLinesFormat

__all__ = ["JsonLinesFormat"]
