"""Flink's own tests of its operator, played through the operator of a job."""

from __future__ import annotations

from tests.unit.cep.played import Played
from tests.unit.cep.test_recorded import check_streams


def test_streams_of_flinks_operator() -> None:
    """Time, order, lateness, keys and refusals of a job would differ from Flink's."""
    check_streams(Played)
