"""Savepoints and checkpoints as data: read, modify and create them, with the names of Flink's State Processor API."""

from penstock.common.doors.door import publish
from penstock.engine.snapshots.missing_classes import MissingObject
from penstock.state_processor.bootstrap_functions import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from penstock.state_processor.operator_info import KeyedStateInfo, ListStateInfo, OperatorInfo
from penstock.state_processor.reader import SavepointReader
from penstock.state_processor.reader_function import KeyedStateReaderFunction
from penstock.state_processor.writer import SavepointWriter

__all__ = [
    "BroadcastStateBootstrapFunction",
    "KeyedStateBootstrapFunction",
    "KeyedStateInfo",
    "KeyedStateReaderFunction",
    "ListStateInfo",
    "MissingObject",
    "OperatorInfo",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
]

publish(__name__, __all__)
