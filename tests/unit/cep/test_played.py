"""Flink's own tests of its operator, played through the operator of a job."""

from __future__ import annotations

import pytest
from tests.unit.cep.played import Played
from tests.unit.cep.recorded import cases
from tests.unit.cep.test_recorded import ERRORS, OPERATOR_GAPS, as_json


def test_streams_of_flinks_operator() -> None:
    """Time, order, lateness, keys and refusals of a job would differ from Flink's."""
    agreed = 0
    for case in cases("cases.jsonl.gz"):
        if case["kind"] != "operator":
            continue
        if case["error"] is not None:
            with pytest.raises(ERRORS[case["error"]]):
                Played(case).feed_all()
            agreed += 1
            continue
        output = Played(case).feed_all()
        if case["name"] in OPERATOR_GAPS:
            shown = [
                f"{kind} {' '.join(label for labels in events.values() for label in labels)} @{at}"
                for kind, events, at, _ in output
            ]
            assert sorted(shown) == OPERATOR_GAPS[case["name"]], case["name"]
        else:
            assert sorted(map(as_json, output)) == sorted(map(as_json, case["output"])), case["name"]
            agreed += 1
    assert agreed == 92
