"""The context that tells a function about its subtask. Source: Flink docs, "User-Defined Functions"."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from penstock.api.functions.aggregator import Aggregator
from penstock.api.metrics import MetricGroup
from penstock.api.state.state import KeyedStateStore
from penstock.common.files.cached_files import DistributedCache


class RuntimeContext(KeyedStateStore):
    """The argument of `Function.open`: states, metrics, parameters and the place of the subtask in the job.

    A state belongs to the key whose record or timer is being processed. The methods that return states raise
    ProgramError if the stream has no key.
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task: the names of its operators, joined by arrows."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups: the highest parallelism that the operator can have."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return how often the region of this subtask (all tasks connected with it) was restarted, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the task name with index (from 1) and parallelism, as logs show it: 'name (1/4)'."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a job parameter set by `env.get_config().set_global_job_parameters`, or `default_value`."""

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """Return the files registered by `env.register_cached_file`. In Java: `getDistributedCache`."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group in which the function registers its metrics."""

    @abstractmethod
    def get_superstep_number(self) -> int:
        """Return the number of the superstep that runs, from 0. Raises ProgramError outside of an iteration's body."""

    @abstractmethod
    def get_iteration_aggregator(self, name: str) -> Aggregator[Any]:
        """Return an aggregator of the iteration, to aggregate in during this superstep: ask for it in each superstep.

        Raises ProgramError outside of an iteration's body, and for a name that the iteration was not given.
        """

    @abstractmethod
    def get_previous_iteration_aggregate(self, name: str) -> Any:
        """Return what an aggregator had after the superstep before, over all subtasks; None in the first one.

        Raises ProgramError as `get_iteration_aggregator` does.
        """
