"""State of a running job, asked for from outside. Source: Flink docs, "Queryable State"."""

from penstock.client.async_queryable_state_client import AsyncQueryableStateClient
from penstock.client.queryable_state_client import QueryableStateClient
from penstock.common.door import publish
from penstock.datastream.queryable_state_stream import QueryableStateStream
from penstock.snapshots.state_answer import QueryableState, QueryableStates, StateAnswer

__all__ = [
    "AsyncQueryableStateClient",
    "QueryableState",
    "QueryableStateClient",
    "QueryableStateStream",
    "QueryableStates",
    "StateAnswer",
]

publish(__name__, __all__)
