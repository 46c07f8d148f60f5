"""What a function may ask of the subtask in which it runs. Source: Flink docs, "User-Defined Functions"."""

from __future__ import annotations

from abc import abstractmethod

from penstock.api.metrics import MetricGroup
from penstock.api.state.state import KeyedStateStore
from penstock.common.files.cached_files import DistributedCache


class RuntimeContext(KeyedStateStore):
    """What `open(runtime_context)` of a function is given.

    States are those of the key whose record or timer is being processed. Asking for one raises ProgramError if the
    stream has no key.
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """Name of the task: of its operators, joined by arrows."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Number of key groups: the highest parallelism that the operator can have."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the pipelined region of this subtask was restarted, from 0: all that is connected with it."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Task name with index and parallelism, as logs show it: 'name (1/4)'."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A job parameter set by `env.get_config().set_global_job_parameters`."""

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """The files that `env.register_cached_file` has registered. In Java: `getDistributedCache`."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """The group in which the function registers its own counters, gauges and meters."""
