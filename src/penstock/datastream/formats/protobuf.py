"""Protobuf messages, and files of them. They need `pip install 'penstock-streams[protobuf]'`. Not in PyFlink.

The options are those of Flink's Protobuf format for tables.
"""

from penstock.common.doors.door import publish
from penstock.connectors.files.formats.protobuf_format import ProtobufEncoder, ProtobufFormat
from penstock.connectors.formats.protobuf_row import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from penstock.connectors.formats.protobuf_schema import ProtobufSchema

__all__ = [
    "ProtobufEncoder",
    "ProtobufFormat",
    "ProtobufRowDeserializationSchema",
    "ProtobufRowSerializationSchema",
    "ProtobufSchema",
]

publish(__name__, __all__)
