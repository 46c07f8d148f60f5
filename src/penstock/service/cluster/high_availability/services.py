"""Create the register that a configuration names, and check its settings."""

from __future__ import annotations

import os
import re
from pathlib import Path

from penstock.common.configuration import Configuration
from penstock.common.configuration import high_availability_options as options
from penstock.common.configuration.choices import HighAvailabilityMode
from penstock.common.errors import ConfigurationError
from penstock.service.cluster.high_availability.kubernetes_api import (
    SERVICE_ACCOUNT,
    ApiServer,
    address_in,
    retry_unanswered,
)
from penstock.service.cluster.high_availability.kubernetes_register import KubernetesRegister, LeaseTimes
from penstock.service.cluster.high_availability.lease_register import LeaseRegister
from penstock.service.cluster.high_availability.register import Register
from penstock.service.cluster.high_availability.zookeeper_register import ZooKeeperRegister

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""Names of objects, within the limits of all their kinds in Kubernetes."""
_TRIES = 3
"""Requests within the deadline of a leader: each may take this fraction of it."""


def is_highly_available(configuration: Configuration) -> bool:
    """Return whether processes elect a leader. Raises ConfigurationError."""
    return configuration.get(options.TYPE) is not HighAvailabilityMode.NONE


def cluster_folder(configuration: Configuration) -> Path:
    """Return the folder of a cluster's jobs. Raises ConfigurationError if it is not set or not a folder."""
    text, key = configuration.get(options.STORAGE_DIRECTORY), options.STORAGE_DIRECTORY.key
    if text is None:
        raise ConfigurationError(
            f"{options.TYPE.key} is {configuration.get(options.TYPE).value}, and {key} is not set: name the folder in "
            "which the cluster keeps its jobs, one that all machines see at the same path"
        )
    path = Path(text.removeprefix("file://"))
    if ("://" in text and not text.startswith("file:///")) or not path.is_absolute():
        raise ConfigurationError(
            f"{key} must be an absolute path, on a file system that all machines have mounted, got {text!r}. "
            "Object stores hold checkpoints (execution.checkpointing.dir), not the jobs of a cluster"
        )
    return path / configuration.get(options.CLUSTER_ID).strip("/")


def checked_folder(configuration: Configuration) -> Path:
    """Return the folder of a cluster's jobs, created if necessary. Raises ConfigurationError if it is not writable."""
    folder = cluster_folder(configuration)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{options.STORAGE_DIRECTORY.key}: cannot write to {folder}: {error}. Is it mounted here, and "
            "may this user write there?"
        ) from error
    return folder


def register_of(configuration: Configuration) -> Register:
    """Return the register of a cluster. Raises ConfigurationError if it is not set, or can't be reached."""
    kind = configuration.get(options.TYPE)
    folder = cluster_folder(configuration)
    if kind is HighAvailabilityMode.FILESYSTEM:
        return LeaseRegister(folder, configuration.get(options.LEASE_DURATION))
    if kind is HighAvailabilityMode.KUBERNETES:
        return _kubernetes_register(configuration)
    return _zookeeper_register(configuration)


def _zookeeper_register(configuration: Configuration) -> ZooKeeperRegister:
    quorum = configuration.get(options.ZOOKEEPER_QUORUM)
    if not quorum:
        raise ConfigurationError(
            f"{options.TYPE.key} is zookeeper, and {options.ZOOKEEPER_QUORUM.key} is not set: name the servers, as "
            "zoo1:2181,zoo2:2181,zoo3:2181"
        )
    root = "/" + configuration.get(options.ZOOKEEPER_ROOT).strip("/")
    return ZooKeeperRegister(
        quorum,
        f"{root.rstrip('/')}/{configuration.get(options.CLUSTER_ID).strip('/')}",
        configuration.get(options.ZOOKEEPER_SESSION_TIMEOUT),
        configuration.get(options.ZOOKEEPER_CONNECTION_TIMEOUT),
    )


def _kubernetes_register(configuration: Configuration) -> KubernetesRegister:
    times = _lease_times(configuration)
    cluster = configuration.get(options.CLUSTER_ID).strip("/")
    url = configuration.get(options.KUBERNETES_API_SERVER)
    account = SERVICE_ACCOUNT if url is None else None
    url = url or address_in(os.environ)
    if url is None:
        raise ConfigurationError(
            f"{options.TYPE.key} is kubernetes, and this process is in no pod. Elsewhere start kubectl proxy, and set "
            f"{options.KUBERNETES_API_SERVER.key}: http://127.0.0.1:8001"
        )
    namespace = configuration.get(options.KUBERNETES_NAMESPACE) or _namespace_of(account)
    for key, name in ((options.CLUSTER_ID.key, cluster), (options.KUBERNETES_NAMESPACE.key, namespace)):
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{key} must be 1 to 63 characters of a-z, 0-9 and -, without - at either end, got {name!r}"
            )
    server = ApiServer(url, namespace, account, times.deadline / _TRIES / 1000)
    register = KubernetesRegister(server, namespace, cluster, times)
    try:
        retry_unanswered(register.leader, times.deadline)
    except OSError as error:
        raise ConfigurationError(
            f"cannot elect leaders in the namespace {namespace}: {error}. Is the API server's address right, and "
            "may the service account get, create and update leases and configmaps there?"
        ) from error
    return register


def _lease_times(configuration: Configuration) -> LeaseTimes:
    given = (options.KUBERNETES_LEASE_DURATION, options.KUBERNETES_RENEW_DEADLINE, options.KUBERNETES_RETRY_PERIOD)
    times = LeaseTimes(*(configuration.get(option) for option in given))
    if not times.duration >= times.deadline >= 2 * times.retry:
        lease, deadline, retry = (option.key for option in given)
        raise ConfigurationError(
            f"{lease} ({times.duration} ms) must be at least {deadline} ({times.deadline} ms), so that a leader steps "
            f"down before its successor leads, and {deadline} at least twice {retry} ({times.retry} ms), so that it "
            "survives one failed renewal"
        )
    return times


def _namespace_of(account: Path | None) -> str:
    """Return the namespace of the pod."""
    try:
        return (account / "namespace").read_text(encoding="ascii").strip() if account is not None else "default"
    except OSError:
        return "default"
