"""Metrics that functions register, at PyFlink's module path."""

from penstock.api.metrics import Counter, Distribution, Meter, Metric, MetricGroup
from penstock.common.doors.door import publish

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

publish(__name__, __all__)
