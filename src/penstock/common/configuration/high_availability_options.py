"""The options of high availability: who elects the process that leads a cluster, and where its jobs are kept.

Keys are Flink's but for those below `high-availability.filesystem`, and `high-availability.kubernetes.api-server`. Some
defaults differ: the session's timeout is 6 s, not 60, since the jobs of a leader that has died stand still for so long;
`path.root` is /penstock, so that a cluster of Flink's in the same ensemble has nothing to do with it; and a leader in
Kubernetes gives up before its Lease has run out, by client-go's times. Source: Flink docs, "Configuration", High
Availability; client-go, leaderelection.
"""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, EnumType, TextType
from penstock.common.configuration.choices import HighAvailabilityMode

TYPE = option(
    "high-availability.type",
    EnumType(HighAvailabilityMode),
    HighAvailabilityMode.NONE,
    "high-availability",
    "high-availability.mode",
)
"""How the processes of a cluster choose the one that leads: zookeeper, kubernetes, filesystem (a lease in a shared
folder), or none: one process, and others that stand by on its machine."""

CLUSTER_ID = option(
    "high-availability.cluster-id",
    TextType(),
    "default",
    "high-availability.zookeeper.path.namespace",
    "kubernetes.cluster-id",
)
"""Of the cluster among those that share a storageDir, an ensemble or a namespace."""

STORAGE_DIRECTORY = option("high-availability.storageDir", TextType(), None, "high-availability.zookeeper.storageDir")
"""The folder of the cluster's jobs, at the same path on all machines that may lead. ZooKeeper or Kubernetes holds
pointers into it."""

ZOOKEEPER_QUORUM = option("high-availability.zookeeper.quorum", TextType(), None)
"""The servers of ZooKeeper: HOST:PORT, separated by commas."""

ZOOKEEPER_ROOT = option("high-availability.zookeeper.path.root", TextType(), "/penstock")
"""The node of ZooKeeper below which clusters have theirs."""

ZOOKEEPER_SESSION_TIMEOUT = option(
    "high-availability.zookeeper.client.session-timeout",
    DurationType(least_ms=1000),
    6_000,
    "zookeeper.session-timeout",
)
"""How long a leader may be silent until another process leads. ZooKeeper's servers allow 2 to 20 of their ticks."""

ZOOKEEPER_CONNECTION_TIMEOUT = option(
    "high-availability.zookeeper.client.connection-timeout", DurationType(least_ms=1), 15_000
)
"""How long a start waits for a server of ZooKeeper."""

LEASE_DURATION = option("high-availability.filesystem.lease-duration", DurationType(least_ms=1000), 6_000)
"""With type filesystem, how long a leader may not renew its lease until another process leads."""

KUBERNETES_NAMESPACE = option("kubernetes.namespace", TextType(), None)
"""Where the Lease and the ConfigMap of a cluster are. Not set: in that of the pod, or in default."""

KUBERNETES_API_SERVER = option("high-availability.kubernetes.api-server", TextType(), None)
"""The API server, for processes that are in no pod: http://127.0.0.1:8001 behind kubectl proxy. Not set: that of the
pod's cluster, with the token of its service account."""

KUBERNETES_LEASE_DURATION = option(
    "high-availability.kubernetes.leader-election.lease-duration", DurationType(least_ms=1000), 8_000
)
"""How long a leader may not renew its Lease until another process leads. (In Flink 15 s: jobs of a lost leader would be
gone for longer than that.)"""

KUBERNETES_RENEW_DEADLINE = option(
    "high-availability.kubernetes.leader-election.renew-deadline", DurationType(least_ms=500), 6_000
)
"""How long a leader that can't renew its Lease still leads. At most the Lease's duration."""

KUBERNETES_RETRY_PERIOD = option(
    "high-availability.kubernetes.leader-election.retry-period", DurationType(least_ms=50), 1_000
)
"""Between two renewals of a leader, and two looks of a process that stands by."""
