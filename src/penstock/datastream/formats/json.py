"""JSON lines. To write them: `penstock.common.serialization.Encoder.json_encoder()`."""

from penstock.common.door import publish
from penstock.connectors.files.formats.json_format import JsonLinesFormat

__all__ = ["JsonLinesFormat"]

publish(__name__, __all__)
