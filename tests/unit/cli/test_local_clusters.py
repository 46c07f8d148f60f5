"""Jobs of a cluster that take no commands yet, as commands find them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.dispatcher.played_cluster import PlayedCluster

from penstock.cli import local_clusters
from penstock.cli.local_clusters import cancel_before_it_runs
from penstock.dispatcher.events import CancelRequested


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    one = PlayedCluster(tmp_path)
    monkeypatch.setattr(local_clusters, "clients_of_clusters", lambda: [one.client])
    yield one
    one.close()


def test_a_job_that_waits_is_cancelled_by_its_id_in_capitals(cluster: PlayedCluster) -> None:
    """It would wait on, and begin when slots are free, with nobody there."""
    assert cancel_before_it_runs("DDDD")
    (event,) = cluster.posted
    assert isinstance(event, CancelRequested) and event.id == "dddddddd"


def test_a_job_that_runs_is_not_cancelled_as_one_that_waits(cluster: PlayedCluster) -> None:
    """It takes commands itself, which is told when it has; and what is empty names none, whatever waits."""
    assert not cancel_before_it_runs("aaaaaaaa1111")
    assert not cancel_before_it_runs("")
    assert not cluster.posted
