"""Slot sharing groups. Plans show them; Spark schedules the tasks. Source: PyFlink's module of this name."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

_KIBI = 1024


@functools.total_ordering
class MemorySize:
    """A number of bytes. Raises ValueError if negative."""

    __slots__ = ("_bytes",)

    def __init__(self, bytes_size: int) -> None:
        if bytes_size < 0:
            raise ValueError(f"a size must be 0 bytes or more, got {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return a size in units of 1,048,576 bytes."""
        return MemorySize(mebi_bytes * _KIBI**2)

    def get_bytes(self) -> int:
        """Return the size in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return the size in units of 1,024 bytes, rounded down."""
        return self._bytes // _KIBI

    def get_mebi_bytes(self) -> int:
        """Return the size in units of 1,024 KiB, rounded down."""
        return self._bytes // _KIBI**2

    def get_gibi_bytes(self) -> int:
        """Return the size in units of 1,024 MiB, rounded down."""
        return self._bytes // _KIBI**3

    def get_tebi_bytes(self) -> int:
        """Return the size in units of 1,024 GiB, rounded down."""
        return self._bytes // _KIBI**4

    def __eq__(self, other: object) -> bool:
        return self._bytes == other._bytes if isinstance(other, MemorySize) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._bytes < other._bytes if isinstance(other, MemorySize) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        return f"{self._bytes} bytes"

    def __repr__(self) -> str:
        return f"MemorySize({self._bytes})"


@dataclass(frozen=True)
class SlotSharingGroup:
    """The name of a group of operators and the resources that it requests."""

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Return the memory of state backends, or None if it is not set."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the task memory, or None if it is not set."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the off-heap task memory, or None if it is not set."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Return the number of CPU cores, or None if it is not set."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return the other resources by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Return a builder with the name. Raises ValueError if it is empty."""
        if not name:
            raise ValueError("the name of a slot sharing group must not be empty")
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Builds a SlotSharingGroup."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the CPU cores. Raises ValueError unless above 0."""
            if cpu_cores <= 0:
                raise ValueError(f"CPU cores must be above 0, got {cpu_cores!r}")
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the task memory."""
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the task memory, in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the off-heap task memory."""
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the off-heap task memory, in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the memory of state backends."""
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the memory of state backends, in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set another resource."""
            self._external_resources[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group."""
            return SlotSharingGroup(
                _name=self._name,
                _cpu_cores=self._cpu_cores,
                _task_heap_memory=self._task_heap_memory,
                _task_off_heap_memory=self._task_off_heap_memory,
                _managed_memory=self._managed_memory,
                _external_resources=dict(self._external_resources),
            )
