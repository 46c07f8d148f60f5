"""The settings that the process of a cluster receives."""

from __future__ import annotations

import msgspec

SETTINGS = "PENSTOCK_CLUSTER_SETTINGS"
"""The variable with the settings, as JSON. They may contain secrets."""


class ClusterSettings(msgspec.Struct, frozen=True):
    """The settings of one cluster."""

    slots: int
    directory: str
    """The directory of the jobs; with an elected leader, of the log only."""
    ports: str
    spark: dict[str, str]
    """Settings of Spark."""
    standby: bool = False
    """Whether the process waits until the cluster with the same directory has ended, and replaces it."""
    high_availability: dict[str, str] = {}
    """Settings of high availability; empty: a lock on the directory decides who leads."""
    ssl: dict[str, str] = {}
    """Settings of TLS."""
    most_slots: int = 0
    """The most slots to request from Spark while jobs wait; 0: no more than `slots`."""
    warm_up: str = ""
    """The folder of a job that a standby runs to warm up; empty: none."""
