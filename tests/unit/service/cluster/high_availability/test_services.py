"""Settings of high availability: what is wrong with them is said, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.service.cluster.high_availability.kubernetes_objects import api_server

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.service.cluster.high_availability.services import (
    checked_folder,
    cluster_folder,
    is_highly_available,
    register_of,
)
from penstock.testing.server_process import free_ports

KUBERNETES = {"type": "kubernetes", "storageDir": "/mnt/shared", "kubernetes__api_server": "http://127.0.0.1:1"}


def configured(**settings: str) -> Configuration:
    return Configuration.from_dict(
        {f"high-availability.{key.replace('__', '.').replace('_', '-')}": text for key, text in settings.items()}
    )


def test_flinks_spellings() -> None:
    """A configuration of Flink's would elect nobody, and say nothing."""
    assert not is_highly_available(Configuration())
    assert is_highly_available(Configuration.from_dict({"high-availability": "zookeeper"}))
    assert is_highly_available(Configuration.from_dict({"high-availability.type": "ZOOKEEPER"}))
    folder = configured(type="filesystem", storageDir="file:///mnt/shared", cluster_id="/orders")
    assert cluster_folder(folder) == Path("/mnt/shared/orders")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"type": "zookeeper"}, r"storageDir is not set: name the folder"),
        ({"type": "zookeeper", "storageDir": "relative"}, "must be an absolute path.*got 'relative'"),
        ({"type": "filesystem", "storageDir": "s3://bucket/ha"}, "Object stores hold checkpoints"),
        ({"type": "zookeeper", "storageDir": "/mnt/shared"}, r"zookeeper\.quorum is not set: name the servers"),
        ({"type": "kubernetes", "storageDir": "/mnt/shared"}, r"this process is in no pod.*kubectl proxy"),
        ({"cluster_id": "Orders_1"} | KUBERNETES, r"cluster-id must be 1 to 63 characters.*got 'Orders_1'"),
        (
            {"kubernetes__leader_election__renew_deadline": "16 s"} | KUBERNETES,
            r"lease-duration \(8000 ms\) must be at least .*renew-deadline \(16000 ms\)",
        ),
        ({"kubernetes__leader_election__retry_period": "6 s"} | KUBERNETES, r"twice .*retry-period \(6000 ms\)"),
    ],
)
def test_what_is_missing_is_named(settings: dict[str, str], said: str) -> None:
    """A user would read a traceback of a client of ZooKeeper's, or nothing."""
    with pytest.raises(ConfigurationError, match=said):
        register_of(configured(**settings))


def test_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    """It would be found when the first job comes, or when a leader is lost."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot write to .*Is it mounted here"):
        checked_folder(configured(type="filesystem", storageDir=str(tmp_path / "file")))
    assert checked_folder(configured(type="filesystem", storageDir=str(tmp_path / "new"))).is_dir()


def test_no_quorum(tmp_path: Path) -> None:
    """A start would wait for ever, or end with a traceback."""
    quorum = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(
        ConfigurationError, match=f"no ZooKeeper server at {quorum} opened a session within 0.3 s.*more than half"
    ):
        register_of(
            configured(
                type="zookeeper", storageDir=str(tmp_path), zookeeper__quorum=quorum,
                zookeeper__client__connection_timeout="300 ms",
            )
        )  # fmt: skip


def test_kubernetes() -> None:
    """A configuration of Flink's for Kubernetes would be taken for another cluster, in another namespace."""
    with api_server() as server:
        settings = configured(**KUBERNETES).to_dict() | {
            "high-availability.kubernetes.api-server": server.url,
            "kubernetes.cluster-id": "orders",
            "kubernetes.namespace": "orders",
        }
        register = register_of(Configuration.from_dict(settings))
        assert register.look() == 1 and register.claim(1)
        assert set(server.store.objects) == {("leases", "penstock-orders"), ("configmaps", "penstock-orders")}
        assert (register.lease_ms, register.retry_ms) == (6_000, 1_000)
        settings["kubernetes.namespace"] = "others"
        with pytest.raises(
            ConfigurationError, match=r"cannot elect leaders in the namespace others: .*403.*may the service"
        ):
            register_of(Configuration.from_dict(settings))
