"""The options of high availability: who elects the process that leads a cluster, and where its jobs are kept.

Keys are Flink's but for those below `high-availability.filesystem`, and `high-availability.kubernetes.api-server`. Some
defaults differ: the session's timeout is 6 s, not 60, since the jobs of a leader that has died stand still for so long;
`path.root` is /penstock, so that a cluster of Flink's in the same ensemble has nothing to do with it; and a leader in
Kubernetes gives up before its Lease has run out, by client-go's times. Source: Flink docs, "Configuration", High
Availability; client-go, leaderelection.
"""

from __future__ import annotations

import enum

from penstock.common.config_options import ConfigOptions


class HighAvailabilityMode(enum.Enum):
    """The option `high-availability.type`. Source: Flink docs, "High Availability"; FILESYSTEM is penstock's own."""

    NONE = "none"
    """One process leads, by a lock on this machine."""
    ZOOKEEPER = "zookeeper"
    """Processes on any machines elect one of them in ZooKeeper."""
    KUBERNETES = "kubernetes"
    """Pods elect one of them by a Lease of Kubernetes."""
    FILESYSTEM = "filesystem"
    """They do so by a lease in a folder that all of them see."""


_PREFIX = "high-availability."


def _key(name: str) -> ConfigOptions.OptionBuilder:
    return ConfigOptions.key(_PREFIX + name)


TYPE = (
    _key("type")
    .enum_type(HighAvailabilityMode)
    .default_value(HighAvailabilityMode.NONE)
    .with_fallback_keys("high-availability", "high-availability.mode")
    .with_description(
        "How the processes of a cluster choose the one that leads: zookeeper, kubernetes, filesystem (a lease in a "
        "shared folder), or none: one process, and others that stand by on its machine."
    )
)
CLUSTER_ID = (
    _key("cluster-id")
    .string_type()
    .default_value("default")
    .with_fallback_keys("high-availability.zookeeper.path.namespace", "kubernetes.cluster-id")
    .with_description("Of the cluster among those that share a storageDir, an ensemble or a namespace.")
)
STORAGE_DIRECTORY = (
    _key("storageDir")
    .string_type()
    .no_default_value()
    .with_fallback_keys("high-availability.zookeeper.storageDir")
    .with_description(
        "The folder of the cluster's jobs, at the same path on all machines that may lead. ZooKeeper or Kubernetes "
        "holds pointers into it."
    )
)
ZOOKEEPER_QUORUM = (
    _key("zookeeper.quorum")
    .string_type()
    .no_default_value()
    .with_description("The servers of ZooKeeper: HOST:PORT, separated by commas.")
)
ZOOKEEPER_ROOT = (
    _key("zookeeper.path.root")
    .string_type()
    .default_value("/penstock")
    .with_description("The node of ZooKeeper below which clusters have theirs.")
)
ZOOKEEPER_SESSION_TIMEOUT = (
    _key("zookeeper.client.session-timeout")
    .duration_type(least_ms=1_000)
    .default_value(6_000)
    .with_fallback_keys("zookeeper.session-timeout")
    .with_description(
        "How long a leader may be silent until another process leads. ZooKeeper's servers allow 2 to 20 of their ticks."
    )
)
ZOOKEEPER_CONNECTION_TIMEOUT = (
    _key("zookeeper.client.connection-timeout")
    .duration_type(least_ms=1)
    .default_value(15_000)
    .with_description("How long a start waits for a server of ZooKeeper.")
)
LEASE_DURATION = (
    _key("filesystem.lease-duration")
    .duration_type(least_ms=1_000)
    .default_value(6_000)
    .with_description("With type filesystem, how long a leader may not renew its lease until another process leads.")
)
KUBERNETES_NAMESPACE = (
    ConfigOptions.key("kubernetes.namespace")
    .string_type()
    .no_default_value()
    .with_description("Where the Lease and the ConfigMap of a cluster are. Not set: in that of the pod, or in default.")
)
KUBERNETES_API_SERVER = (
    _key("kubernetes.api-server")
    .string_type()
    .no_default_value()
    .with_description(
        "The API server, for processes that are in no pod: http://127.0.0.1:8001 behind kubectl proxy. Not set: that "
        "of the pod's cluster, with the token of its service account."
    )
)
KUBERNETES_LEASE_DURATION = (
    _key("kubernetes.leader-election.lease-duration")
    .duration_type(least_ms=1_000)
    .default_value(8_000)
    .with_description(
        "How long a leader may not renew its Lease until another process leads. (In Flink 15 s: jobs of a lost leader "
        "would be gone for longer than that.)"
    )
)
KUBERNETES_RENEW_DEADLINE = (
    _key("kubernetes.leader-election.renew-deadline")
    .duration_type(least_ms=500)
    .default_value(6_000)
    .with_description("How long a leader that can't renew its Lease still leads. At most the Lease's duration.")
)
KUBERNETES_RETRY_PERIOD = (
    _key("kubernetes.leader-election.retry-period")
    .duration_type(least_ms=50)
    .default_value(1_000)
    .with_description("Between two renewals of a leader, and two looks of a process that stands by.")
)
