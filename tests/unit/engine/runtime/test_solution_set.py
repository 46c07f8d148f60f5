"""Messages to a solution set are grouped by keys as keyed state has them: 1, True and 1.0 are different keys."""

from __future__ import annotations

from penstock.engine.runtime.operators.solution_set import Messages


def test_messages_are_grouped_by_equal_keys() -> None:
    """Messages to a key would wait in two groups, or reach the entry of another one."""
    messages = Messages()
    messages.add([1, "1", 1], ["a", "b", "c"])
    messages.add([True, (1, 2), 1, (1, 2), b"1"], ["d", "e", "f", "g", "h"])
    found = list(messages)
    assert [(repr(key), values) for key, values in found] == [
        ("1", ["a", "c", "d", "f"]),
        ("'1'", ["b"]),
        ("(1, 2)", ["e", "g"]),
        ("b'1'", ["h"]),
    ]
