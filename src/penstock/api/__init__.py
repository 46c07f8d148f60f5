"""Interfaces that users implement or name: functions, contexts, states, sources, sinks, windows, triggers.

The built-in window assigners, triggers and evictors are here as well. Nothing in this package runs a job, and it
imports only `penstock.common`: the engine imports these classes, never the other way round. Users import them through
the doors in `penstock.datastream`, whose paths are PyFlink's.
"""
