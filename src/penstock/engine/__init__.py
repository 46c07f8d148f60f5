"""The engine: tasks, state, checkpoints and the control of jobs, as state machines without I/O.

Its hosts (`penstock.hosts`) give it time, threads, processes and messages. Nothing here knows Spark.
"""
