"""SQL is planned by Flink's own planner, in a process of its own; this package is all that knows it."""
