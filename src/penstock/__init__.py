"""penstock: Apache Flink's programming model and state management for Python, on Apache Spark."""

__version__ = "0.1.0"
