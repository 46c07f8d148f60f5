"""Structured iterations: supersteps within one job, with the names of FLIP-176 and of Flink's DataSet API.

In a superstep each subtask processes its part of the workset; what the superstep feeds back is the workset of the next
one. Within an iteration event time is the number of the superstep, from 0: records have it as their timestamp, so a
window of `superstep_windows()` has the records of one superstep, and a timer at n fires when superstep n ends.
"""

from __future__ import annotations

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.common.doors.door import publish
from penstock.iteration.aggregators import MaxAggregator, MinAggregator, SumAggregator
from penstock.iteration.broadcast_set import with_broadcast_set
from penstock.iteration.delta_iteration import DeltaIteration, iterate_delta
from penstock.iteration.iterations import IterationBody, IterationBodyResult, IterationConfig, Iterations
from penstock.iteration.listener import IterationListener
from penstock.iteration.replayable_data_streams import ReplayableDataStreamList
from penstock.iteration.solution_set import SolutionSet, SolutionSetFunction
from penstock.iteration.superstep_stream import SuperstepStream, iterate, superstep_windows

__all__ = [
    "Aggregator",
    "ConvergenceCriterion",
    "DeltaIteration",
    "IterationBody",
    "IterationBodyResult",
    "IterationConfig",
    "IterationListener",
    "Iterations",
    "MaxAggregator",
    "MinAggregator",
    "ReplayableDataStreamList",
    "SolutionSet",
    "SolutionSetFunction",
    "SumAggregator",
    "SuperstepStream",
    "iterate",
    "iterate_delta",
    "superstep_windows",
    "with_broadcast_set",
]

publish(__name__, __all__)
