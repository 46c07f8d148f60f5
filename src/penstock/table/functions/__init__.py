"""Flink's built-in scalar functions on Arrow columns. `calls` has `call` and `result_type`."""
