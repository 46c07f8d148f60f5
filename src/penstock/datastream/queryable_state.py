"""Queries for the state of running jobs. Source: Flink docs, "Queryable State"."""

from penstock.common.doors.door import publish
from penstock.datastream.queryable_state_stream import QueryableStateStream
from penstock.engine.snapshots.state_answer import QueryableState, QueryableStates, StateAnswer
from penstock.service.client.async_queryable_state_client import AsyncQueryableStateClient
from penstock.service.client.queryable_state_client import QueryableStateClient

__all__ = [
    "AsyncQueryableStateClient",
    "QueryableState",
    "QueryableStateClient",
    "QueryableStateStream",
    "QueryableStates",
    "StateAnswer",
]

publish(__name__, __all__)
