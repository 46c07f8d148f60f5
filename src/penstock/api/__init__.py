"""What users implement and name: functions, contexts, states, sources, sinks, windows, triggers.

Contracts without an engine: nothing here runs a job, and nothing here imports more than `penstock.common`. The runtime
knows these classes, never the other way round. Users import them through the doors in `penstock.datastream`, whose
paths are PyFlink's.
"""
