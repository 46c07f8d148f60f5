"""A cluster whose leader is elected: by three real servers of ZooKeeper, by a Lease, or in a shared folder.

The Lease is that of an API server of our own: no Kubernetes was at hand.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.e2e.failovers import ElectedCluster, Fault, Job, Nemesis, check_terms, faults_of
from tests.unit.service.cluster.high_availability.register_suite import Make, RegisterSuite, elected, made_by

from penstock.service.cluster.high_availability.register import Register
from penstock.service.cluster.high_availability.zookeeper_register import ZooKeeperRegister
from penstock.testing.zookeeper_ensemble import ZooKeeperEnsemble

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm, pytest.mark.slow]

SESSION_MS = 4_000
CONNECTION_MS = 30_000


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble() as ensemble:
        yield ensemble


@pytest.fixture
def register(ensemble: ZooKeeperEnsemble, tmp_path: Path) -> Iterator[Make]:

    def create(lease_ms: int) -> Register:
        session_ms = min(lease_ms, 10_000)
        return ZooKeeperRegister(ensemble.quorum, f"/penstock/{tmp_path.name}", session_ms, CONNECTION_MS)

    yield from made_by(create, SESSION_MS)


@pytest.fixture
def depose(ensemble: ZooKeeperEnsemble) -> Callable[[Register], object]:
    """Its session is over, as if it had been silent for too long: a second client of the session has ended it."""

    def end_session(former: Register) -> None:
        assert isinstance(former, ZooKeeperRegister)
        twin = KazooClient(ensemble.quorum, client_id=former.session)
        twin.start(CONNECTION_MS / 1000)
        twin.stop()

    return end_session


def until_answered(call: Callable[[], object]) -> None:
    """Call again until servers answer: on a busy machine their election takes longer than a session."""
    until_s = time.monotonic() + 60
    while True:
        try:
            call()
        except OSError:
            assert time.monotonic() < until_s
        else:
            return


class TestZooKeeperRegister(RegisterSuite):
    """What holds for each register."""

    @pytest.mark.parametrize(("asked_ms", "granted_ms"), [(60_000, 10_000), (500, 1_000)])
    def test_a_lead_lasts_as_long_as_the_servers_allow(
        self, ensemble: ZooKeeperEnsemble, tmp_path: Path, asked_ms: int, granted_ms: int
    ) -> None:
        """A leader that was cut off would go on for a minute, fifty seconds of it beside its successor."""
        one = ZooKeeperRegister(ensemble.quorum, f"/penstock/{tmp_path.name}", asked_ms, CONNECTION_MS)
        assert one.lease_ms == granted_ms
        one.close()

    def test_a_lost_server_costs_no_lead(self, register: Make, ensemble: ZooKeeperEnsemble) -> None:
        """Each of ZooKeeper's servers that is restarted would start all jobs again."""
        one = register(lease_ms=30_000)
        elected(one)
        pointers = one.pointers()
        leader = next(server for server in ensemble.servers if server.mode == "leader")
        leader.kill()
        try:
            # By the two others, which elect one of them.
            until_answered(lambda: pointers.put("a", "state-1-1"))
        finally:
            leader.start()
        ensemble.wait_for_quorum()
        until_answered(lambda: one.confirm("http://127.0.0.1:8081"))
        assert pointers.all() == {"a": "state-1-1"}


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ElectedCluster]:
    with ElectedCluster(tmp_path, request.param) as cluster:
        yield cluster


def carried_out(cluster: ElectedCluster, faults: list[Fault]) -> Nemesis:
    job = Job(cluster)
    job.goes_on()
    nemesis = Nemesis(cluster, job)
    for number, fault in enumerate(faults, 1):
        nemesis.carry_out(fault, starts_again=number < len(faults))
    job.stop()
    assert job.check() > 0
    assert check_terms(cluster) > 1
    return nemesis


@pytest.mark.parametrize("cluster", ["zookeeper"], indirect=True)
def test_a_leader_that_was_stopped_and_goes_on(cluster: ElectedCluster) -> None:
    """Its jobs would stand still, or run twice; and jobs that it takes when it goes on be run by nobody."""
    assert carried_out(cluster, [Fault("stop", "kill server")]).refused == 1


@pytest.mark.soak
@pytest.mark.parametrize("cluster", ["zookeeper", "kubernetes", "filesystem"], indirect=True)
def test_sixty_faults(cluster: ElectedCluster) -> None:
    """The same, whatever is lost, killed or stopped, in all combinations."""
    random.seed(1)
    carried_out(cluster, faults_of("zookeeper" if cluster.ensemble else "", 1, 60))
