"""The options of high availability: how a cluster elects its leader, and where it stores its jobs.

The keys are Flink's, except `high-availability.filesystem.*` and `high-availability.kubernetes.api-server`. Some
defaults differ: the session timeout is 6 s instead of 60 s, because the jobs of a lost leader stand still meanwhile;
`path.root` is /penstock, to be separate from a Flink cluster in the same ensemble; and a leader in Kubernetes stops
leading before its Lease expires, with the ratios of client-go. Source: Flink docs, "Configuration", High Availability;
client-go, leaderelection.
"""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, EnumType, TextType
from penstock.common.configuration.choices import HighAvailabilityMode

TYPE = option(
    "high-availability.type",
    EnumType(HighAvailabilityMode),
    HighAvailabilityMode.NONE,
    fallback_keys=("high-availability", "high-availability.mode"),
)
"""How the processes of a cluster elect their leader. zookeeper; kubernetes; filesystem: by a lease in a shared folder;
none: the first process on the machine leads, and further ones on that machine stand by."""

CLUSTER_ID = option(
    "high-availability.cluster-id",
    TextType(),
    "default",
    fallback_keys=("high-availability.zookeeper.path.namespace", "kubernetes.cluster-id"),
)
"""Name of the cluster among those that share a storageDir, an ensemble or a namespace."""

STORAGE_DIRECTORY = option(
    "high-availability.storageDir", TextType(), None, fallback_keys=("high-availability.zookeeper.storageDir",)
)
"""Folder of the cluster's jobs, at the same path on all machines that may lead. ZooKeeper or Kubernetes stores pointers
to its files."""

ZOOKEEPER_QUORUM = option("high-availability.zookeeper.quorum", TextType(), None)
"""The ZooKeeper servers: HOST:PORT, separated by commas."""

ZOOKEEPER_ROOT = option("high-availability.zookeeper.path.root", TextType(), "/penstock")
"""The ZooKeeper node below which clusters have their nodes."""

ZOOKEEPER_SESSION_TIMEOUT = option(
    "high-availability.zookeeper.client.session-timeout",
    DurationType(least_ms=1000),
    6_000,
    fallback_keys=("zookeeper.session-timeout",),
)
"""Time without a sign of the leader after which another process leads. ZooKeeper servers allow 2 to 20 of their
ticks."""

ZOOKEEPER_CONNECTION_TIMEOUT = option(
    "high-availability.zookeeper.client.connection-timeout", DurationType(least_ms=1), 15_000
)
"""How long a process that starts waits for a ZooKeeper server."""

LEASE_DURATION = option("high-availability.filesystem.lease-duration", DurationType(least_ms=1000), 6_000)
"""How long a lease in the shared folder is valid without a renewal. Then another process leads."""

KUBERNETES_NAMESPACE = option("kubernetes.namespace", TextType(), None)
"""Namespace of the Lease and the ConfigMap of a cluster. Not set: the pod's namespace, or `default`."""

KUBERNETES_API_SERVER = option("high-availability.kubernetes.api-server", TextType(), None)
"""The API server for processes outside a pod: http://127.0.0.1:8001 with kubectl proxy. Not set: the API server of the
pod's cluster, with the token of its service account."""

KUBERNETES_LEASE_DURATION = option(
    "high-availability.kubernetes.leader-election.lease-duration", DurationType(least_ms=1000), 8_000
)
"""How long a Lease is valid without a renewal. Then another process leads. (Flink: 15 s, in which the jobs of a lost
leader would stand still.)"""

KUBERNETES_RENEW_DEADLINE = option(
    "high-availability.kubernetes.leader-election.renew-deadline", DurationType(least_ms=500), 6_000
)
"""How long a leader that cannot renew its Lease still leads. At most the duration of the Lease."""

KUBERNETES_RETRY_PERIOD = option(
    "high-availability.kubernetes.leader-election.retry-period", DurationType(least_ms=50), 1_000
)
"""Interval at which a leader renews its Lease, and at which a process that stands by checks it."""
