"""Settings of the operator that produces a stream, or of a sink.

Partitionings, unions and side outputs are edges of the job, without an operator for the settings. Source: PyFlink,
KeyedStream ("… for KeyedStream is not supported").
"""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.common.execution_config import checked_max_parallelism, checked_parallelism
from penstock.common.functions.driver_only import DriverOnly
from penstock.common.text.unicode_text import check_writable
from penstock.common.time import TimeLength, to_milliseconds
from penstock.engine.plan.transformations import Chaining, Transformation


class OperatorSettings(DriverOnly):
    """Settings of the operator that produces a stream, or of a sink.

    All methods except `set_description` raise ValueError on a stream without an operator: a keyed or otherwise
    partitioned stream, a union, a side output.
    """

    _transformation: Transformation

    def name(self: S, name: str) -> S:
        """Set the operator's name in plans, metrics and errors."""
        check_writable(name, "the name of an operator")
        self._operator_for("name").name = name
        return self

    def get_name(self) -> str:
        """Return the name of the operator."""
        return self._operator_for("get_name").name

    def uid(self: S, uid: str) -> S:
        """Set the id, unique in the program, by which a changed program finds the operator's state."""
        if not uid:
            raise ValueError("a uid must not be empty")
        check_writable(uid, "a uid")
        self._operator_for("uid").uid = uid
        return self

    def set_uid_hash(self: S, uid_hash: str) -> S:
        """Accept the 32 hexadecimal digits by which a Flink savepoint identifies an operator. They have no effect."""
        if len(uid_hash) != 32 or not all(digit in "0123456789abcdefABCDEF" for digit in uid_hash):
            raise ValueError(f"a uid hash must have 32 hexadecimal digits, got {uid_hash!r}")
        self._operator_for("set_uid_hash").uid_hash = uid_hash
        return self

    def set_parallelism(self: S, parallelism: int) -> S:
        """Set the number of subtasks. Raises ValueError if below 1, or if the operator can't be parallel."""
        parallelism = checked_parallelism("parallelism", parallelism)
        operator = self._operator_for("set_parallelism")
        if operator.parallelism_fixed is not None and parallelism != 1:
            raise ValueError(f"'{operator.name}' can't have parallelism {parallelism}: {operator.parallelism_fixed}")
        operator.parallelism = parallelism
        return self

    def set_max_parallelism(self: S, max_parallelism: int) -> S:
        """Set the number of key groups, the upper bound of the operator's parallelism.

        Raises ValueError unless it is 1 to 32,768.
        """
        max_parallelism = checked_max_parallelism(max_parallelism)
        self._operator_for("set_max_parallelism").max_parallelism = max_parallelism
        return self

    def set_description(self: S, description: str) -> S:
        """Set a longer description for plans."""
        check_writable(description, "a description")
        self._transformation.description = description
        return self

    def disable_chaining(self: S) -> S:
        """Don't chain the operator to its neighbors."""
        self._operator_for("disable_chaining").chaining = Chaining.NEVER
        return self

    def slot_sharing_group(self: S, slot_sharing_group: Any) -> S:
        """Set the group: operators of different groups are not chained. Apart from that, Spark assigns slots."""
        group = slot_sharing_group
        operator = self._operator_for("slot_sharing_group")
        operator.slot_sharing_group = group if isinstance(group, str) else group.get_name()
        return self

    def _operator_for(self, method: str) -> Transformation:
        """Return the operator that `method` changes. Raises ValueError if the stream has no operator."""
        stream = self._transformation.edge_kind
        if stream is not None:
            raise ValueError(
                f"{method} is for operators, but {stream} does not have one: call it on the stream before, or on the "
                "result of the operator after it"
            )
        return self._transformation


S = TypeVar("S", bound=OperatorSettings)


def buffer_timeout(timeout: TimeLength) -> int:
    """Return a buffer timeout in ms. Raises ValueError if below -1."""
    timeout_ms = to_milliseconds(timeout)
    if timeout_ms < -1:
        raise ValueError(f"the buffer timeout must be 0 ms or more, or -1, got {timeout_ms} ms")
    return timeout_ms
