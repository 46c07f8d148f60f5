"""Tools for users' tests: harnesses for functions, conformance suites for connectors."""

from penstock.common.doors.door import publish
from penstock.testing.harness import (
    KeyedOneInputHarness,
    KeyedTwoInputHarness,
    OneInputHarness,
    OperatorHarness,
    Timer,
    TwoInputHarness,
)
from penstock.testing.harness_watch import ChangedValueError

__all__ = [
    "ChangedValueError",
    "KeyedOneInputHarness",
    "KeyedTwoInputHarness",
    "OneInputHarness",
    "OperatorHarness",
    "Timer",
    "TwoInputHarness",
]

publish(__name__, __all__)
