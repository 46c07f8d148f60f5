"""What users implement and name: functions, contexts, states, sources, sinks, windows, triggers.

Contracts, and those of their implementations that users name: built-in assigners, triggers, evictors. Nothing here
runs a job, and nothing here imports more than `penstock.common`. The runtime knows these classes, never the other way
round. Users import them through the doors in `penstock.datastream`, whose paths are PyFlink's.
"""
