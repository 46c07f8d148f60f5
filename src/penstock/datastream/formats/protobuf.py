"""Protobuf: messages, and files of them. It needs `pip install 'penstock-streams[protobuf]'`. Not in PyFlink.

Its options are those of Flink's format for tables.
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
