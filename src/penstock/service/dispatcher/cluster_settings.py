"""What the process of a cluster is told."""

from __future__ import annotations

import msgspec

SETTINGS = "PENSTOCK_CLUSTER_SETTINGS"
"""The variable in which a cluster's process finds them, as JSON. There may be secrets among them."""


class ClusterSettings(msgspec.Struct, frozen=True):
    """Of one cluster."""

    slots: int
    directory: str
    """Of its jobs; of its log only, where leaders are elected."""
    ports: str
    spark: dict[str, str]
    """Settings of Spark."""
    standby: bool = False
    """Whether it waits until the cluster of that directory has ended, and takes its place."""
    high_availability: dict[str, str] = {}
    """Settings of how leaders are elected; none: by a lock on the directory."""
    ssl: dict[str, str] = {}
    """Settings of TLS."""
    most_slots: int = 0
    """How many Spark is asked for when jobs wait; 0: no more than `slots`."""
    warm_up: str = ""
    """The folder of a job that it runs while it stands by; empty: none."""
