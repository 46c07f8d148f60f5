"""Election by a Lease of Kubernetes, on an API server of our own with faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from tests.unit.service.cluster.high_availability.kubernetes_objects import (
    NAMESPACE,
    ApiServerDouble,
    Fault,
    api_server,
)
from tests.unit.service.cluster.high_availability.register_suite import LONG_MS, Make, RegisterSuite, elected, made_by

from penstock.service.cluster.high_availability.election import Election
from penstock.service.cluster.high_availability.kubernetes_api import ApiServer
from penstock.service.cluster.high_availability.kubernetes_register import KubernetesRegister, LeaseTimes
from penstock.service.cluster.high_availability.pointers import NotLeadingError
from penstock.service.cluster.high_availability.register import Register

Answer = TypeVar("Answer")

LEASE_MS = 500
ANSWER_S = 5.0
NAME = "penstock-default"
HANGS = {Fault.SILENT, Fault.SILENT_AFTER, Fault.LATE}


@pytest.fixture
def server() -> Iterator[ApiServerDouble]:
    with api_server() as server:
        yield server


def register_at(
    server: ApiServerDouble, duration_ms: int = LEASE_MS, answer_s: float = ANSWER_S, deadline_ms: int | None = None
) -> KubernetesRegister:
    times = LeaseTimes(duration_ms, deadline_ms or duration_ms, 50)
    return KubernetesRegister(ApiServer(server.url, NAMESPACE, None, answer_s), NAMESPACE, "default", times)


@pytest.fixture
def register(server: ApiServerDouble) -> Iterator[Make]:
    yield from made_by(lambda lease_ms: register_at(server, lease_ms), LEASE_MS)


@pytest.fixture
def depose() -> Callable[[Register], object]:
    """It is silent for longer than its Lease."""
    return lambda former: time.sleep(LEASE_MS / 1000)


class TestKubernetesRegister(RegisterSuite):
    """What holds for each register."""


def answered(call: Callable[[], Answer]) -> Answer:
    """As an election does: what has had no answer is asked again."""
    until_s = time.monotonic() + 60
    while True:
        try:
            return call()
        except OSError:
            assert time.monotonic() < until_s
            time.sleep(0.01)


def led(register: KubernetesRegister) -> int:
    """The term that it leads, which it may have claimed before without an answer."""

    def claimed() -> int:
        term = register.look()
        assert term is not None and register.claim(term)
        return term

    return answered(claimed)


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_at_any_request_loses_nothing(fault: Fault) -> None:
    """An API server that is restarted, or a connection that is cut, would lose jobs, or nobody would lead for ever."""
    number, asked = 1, 1
    while number <= asked:
        with api_server() as server:
            server.fault = lambda request, method, at=number: fault if request == at else None  # type: ignore[misc]
            one, other = (
                register_at(server, LONG_MS, 0.15 if fault in HANGS else ANSWER_S),
                register_at(server, LONG_MS),
            )
            term = led(one)
            pointers = one.pointers()
            pointers.put("a", "state-1-1")
            pointers.put("b", "state-1-2")
            answered(lambda one=one: one.confirm("http://127.0.0.1:8081"))  # type: ignore[misc]
            pointers.put("a", "state-1-3")
            pointers.remove("b")
            # What was late is done now, behind what came after it.
            server.goes_on.set()
            pointers.put("c", "state-1-4")
            asked = server.requests
            server.fault = lambda number, method: None
            while server.store.objects["leases", NAME]["spec"]["holderIdentity"]:
                one.close()
            assert led(other) > term
            assert other.pointers().all() == {"a": "state-1-3", "c": "state-1-4"}
            with pytest.raises(NotLeadingError):
                pointers.put("a", "state-1-5")
        number += 1
    assert number > 8


def test_a_leader_without_an_answer_ends(server: ApiServerDouble) -> None:
    """One that is cut off from the API server would go on with its jobs, beside the pod that has taken its place."""
    leads, ended, said = threading.Event(), threading.Event(), []

    def deposed(why: str) -> None:
        said.append(why)
        ended.set()

    register = register_at(server, LONG_MS, 1.0, 5_000)
    election = Election(register, lambda term: leads.set(), lambda until_ms: None, deposed)
    election.start()
    assert leads.wait(60)
    server.fault = lambda number, method: Fault.SILENT
    assert ended.wait(60)
    assert "its lead was not confirmed for" in said[0]


def test_no_two_claim_the_same_lease(server: ApiServerDouble) -> None:
    """Two that stand by see the same Lease run out, and each would lead."""
    former, one, other = (register_at(server, LONG_MS) for _ in range(3))
    elected(former)
    former.close()
    terms = one.look(), other.look()
    assert terms == (2, 2)
    assert one.claim(2)
    assert not other.claim(2)
    with pytest.raises(NotLeadingError):
        other.confirm("http://127.0.0.1:8082")
    one.confirm("http://127.0.0.1:8081")


def test_a_claim_that_stops_half_way_leads_nothing(server: ApiServerDouble) -> None:
    """A process that is stopped between the Lease and the map would take the jobs from its successor."""
    one, other = register_at(server, LEASE_MS), register_at(server, LEASE_MS)
    term = one.look()
    assert term is not None
    # The Lease, and no answer for the map.
    first = server.requests + 1
    server.fault = lambda number, method: None if number == first else Fault.CUT_BEFORE
    with pytest.raises(OSError, match="did not answer PUT"):
        one.claim(term)
    server.fault = lambda number, method: None
    later = elected(other)
    assert later > term
    other.pointers().put("a", "state-2-1")
    assert not one.claim(term)
    with pytest.raises(NotLeadingError):
        one.pointers().put("a", "state-1-1")
    other.confirm("http://127.0.0.1:8082")


def test_clocks_of_others_are_not_believed(server: ApiServerDouble) -> None:
    """A pod on a machine whose clock is wrong would take the lead from one that is well, or never at all."""
    one, other = register_at(server, LONG_MS), register_at(server, LONG_MS)
    elected(one)
    for time_of_clock in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        lease = server.store.objects["leases", NAME]
        lease["spec"] |= {"renewTime": time_of_clock, "acquireTime": time_of_clock}
        assert other.look() is None
    one.confirm("http://127.0.0.1:8081")


def test_a_lease_is_waited_for_as_long_as_its_leader_counts_on_it(server: ApiServerDouble) -> None:
    """Two pods with different settings, in the midst of a change of them, would lead at once."""
    one, other = register_at(server, LONG_MS), register_at(server, 1)
    elected(one)
    for _ in range(3):
        assert other.look() is None
        time.sleep(0.01)


def test_each_renewal_is_seen(server: ApiServerDouble) -> None:
    """A server gives no new version to what has not changed: a leader whose clock stands would be followed."""
    one = register_at(server, LONG_MS)
    elected(one)
    spec = server.store.objects["leases", NAME]["spec"]
    seen = set()
    for _ in range(3):
        one.confirm("http://127.0.0.1:8081")
        lease = server.store.objects["leases", NAME]
        lease["spec"] = {**spec}
        seen.add(lease["metadata"]["annotations"]["penstock/leader"])
    assert len(seen) == 3


def test_what_others_have_added_stays(server: ApiServerDouble) -> None:
    """Labels and annotations of tools would be gone with the next renewal, and it would cost the lead."""
    one = register_at(server, LONG_MS)
    elected(one)
    for plural in ("leases", "configmaps"):
        there = server.store.objects[plural, NAME]
        changed = {**there, "metadata": {**there["metadata"], "annotations": {"team": "orders"}}}
        assert server.store.handle("PUT", plural, NAME, changed)[0] == 200
    one.confirm("http://127.0.0.1:8081")
    one.pointers().put("a", "state-1-1")
    for plural in ("leases", "configmaps"):
        assert server.store.objects[plural, NAME]["metadata"]["annotations"]["team"] == "orders"
    assert one.pointers().all() == {"a": "state-1-1"}


@pytest.mark.parametrize("plural", ["leases", "configmaps"])
def test_a_leader_whose_object_was_removed_stops(server: ApiServerDouble, plural: str) -> None:
    """It would write pointers that nobody finds, or lead beside the one that creates the object again."""
    one, other = register_at(server, LEASE_MS), register_at(server, LEASE_MS)
    term = elected(one)
    one.pointers().put("a", "state-1-1")
    server.store.remove(plural, NAME)
    with pytest.raises(NotLeadingError, match="was removed"):
        if plural == "leases":
            one.confirm("http://127.0.0.1:8081")
        else:
            one.pointers().put("a", "state-1-2")
    if plural == "leases":
        assert other.look() is None, "who has led may not know yet"
        assert elected(other) > term
        assert other.pointers().all() == {"a": "state-1-1"}
    else:
        one.close()
        with pytest.raises(OSError, match=r"the ConfigMap penstock-default.* was removed"):
            other.look()


def test_a_lease_that_says_nothing_is_claimed(server: ApiServerDouble) -> None:
    """Somebody has created it with kubectl, and nobody would ever lead."""
    metadata = {"name": NAME, "namespace": NAMESPACE}
    kubectls = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    assert server.store.handle("POST", "leases", None, kubectls)[0] == 201
    assert server.store.handle("POST", "configmaps", None, {**kubectls, "kind": "ConfigMap"})[0] == 201
    one = register_at(server)
    assert one.leader() is None
    assert elected(one) == 2
    one.pointers().put("a", "state-2-1")


def test_a_map_that_is_full_is_told_at_once(server: ApiServerDouble) -> None:
    """A dispatcher would stand still for the time of a lease with each job that it can't write down."""
    one = register_at(server, LONG_MS)
    elected(one)
    server.allowed.remove("PUT")
    with pytest.raises(OSError, match=r"403.*configmaps is forbidden"):
        one.pointers().put("a", "state-1-1")


def test_people_see_who_leads(server: ApiServerDouble) -> None:
    """`kubectl get leases` would not name the pod, or `kubectl` refuse the Lease."""
    one = register_at(server, 1_500)
    elected(one)
    one.confirm("http://127.0.0.1:8081")
    spec = server.store.objects["leases", NAME]["spec"]
    leader = one.leader()
    assert leader is not None and spec["holderIdentity"].startswith(f"{leader.host}_")
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (2, 0)
    for key in ("acquireTime", "renewTime"):
        assert time.strptime(spec[key][:19] + spec[key][26:], "%Y-%m-%dT%H:%M:%SZ")
    assert spec["acquireTime"] < spec["renewTime"]
    one.close()
    assert server.store.objects["leases", NAME]["spec"]["holderIdentity"] == ""
