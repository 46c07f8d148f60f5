"""Metrics that functions register, under PyFlink's module path."""

from penstock.api.metrics import Counter, Distribution, Meter, MetricGroup
from penstock.common.door import publish

__all__ = ["Counter", "Distribution", "Meter", "MetricGroup"]

publish(__name__, __all__)
