"""The programs in examples/ do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.service.cli.script import run_script

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.spark


def output_of(name: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What `penstock run` prints for the example."""
    capsys.readouterr()
    run_script(EXAMPLES / f"{name}.py", arguments)
    return capsys.readouterr().out.splitlines()


def test_word_count(capsys: pytest.CaptureFixture[str]) -> None:
    """The first program that a newcomer tries would not work."""
    lines = output_of("word_count", capsys)

    assert len(lines) == 25
    assert [line for line in lines if "'the'" in line] == ["('the', 1)", "('the', 2)", "('the', 3)"]


def test_silent_sensors(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that copy its timers would report silence where there was none, or miss it."""
    assert sorted(output_of("silent_sensors", capsys)) == [
        "attic was silent from second 10 on",
        "attic was silent from second 150 on",
        "cellar was silent from second 95 on",
    ]


def test_late_clicks(capsys: pytest.CaptureFixture[str]) -> None:
    """A late record would be in no window and on no side output."""
    assert sorted(output_of("late_clicks", capsys)) == [
        "home from second 0: 2",
        "home from second 10: 2",
        "late> ('home', 3)",
        "shop from second 0: 1",
        "shop from second 20: 1",
        "shop from second 30: 1",
    ]


def test_square_roots(capsys: pytest.CaptureFixture[str]) -> None:
    """A loop would end before all have converged, or never."""
    assert sorted(output_of("square_roots", capsys)) == [
        "the root of 144 is 12.000000, after 9 turns",
        "the root of 1e+06 is 1000.000000, after 15 turns",
        "the root of 2 is 1.414214, after 5 turns",
        "the root of 9 is 3.000000, after 7 turns",
    ]


def test_k_means(capsys: pytest.CaptureFixture[str]) -> None:
    """A superstep would move centers by points of another one, or the iteration would not see that nothing moves."""
    assert sorted(output_of("k_means", capsys)) == [
        "center 0 at 1.17, 1.50",
        "center 1 at 2.75, 8.75",
        "center 2 at 8.50, 8.50",
    ]


def test_connected_components(capsys: pytest.CaptureFixture[str]) -> None:
    """A change would not reach all neighbours, or the solution set would not leave the iteration."""
    assert sorted(output_of("connected_components", capsys)) == [
        *(str((name, "ann")) for name in ("ann", "bob", "cat", "dan")),
        *(str((name, "eve")) for name in ("eve", "fred", "gus")),
    ]


def test_learned_slope(capsys: pytest.CaptureFixture[str]) -> None:
    """What was learned would not come back to those who learn."""
    (line,) = output_of("learned_slope", capsys)
    learned = re.fullmatch(r"after 400 samples: y = (\d\.\d) x", line)
    # How much the samples in between have learned from depends on how many were in the loop at a time.
    assert learned is not None and abs(float(learned.group(1)) - 3) < 0.3, line


def test_groups_of_friends(capsys: pytest.CaptureFixture[str]) -> None:
    """News would get lost on the way round, or by the wrong key to the wrong person."""
    last = dict(line.split(" belongs to ") for line in output_of("groups_of_friends", capsys))

    assert last == {
        **dict.fromkeys(("bob", "cleo", "dan"), "ada"),
        **dict.fromkeys(("finn", "gus"), "eve"),
        "ivy": "hal",
    }


def test_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Files in, files out: the job that most people need first."""
    (tmp_path / "requests.csv").write_text("url,status\n/a,200\n/b,500\n/c,404\n")
    lines = output_of("files", capsys, f"{tmp_path}/*.csv", str(tmp_path / "out"))

    assert [json.loads(line) for line in lines if line.startswith("{")] == [
        {"url": "/b", "status": 500},
        {"url": "/c", "status": 404},
    ]


def test_own_source(capsys: pytest.CaptureFixture[str]) -> None:
    """The pattern for a source of one's own would lose or double records."""
    lines = output_of("own_source", capsys)

    assert sorted(lines) == sorted(
        f"('powers of {base}', {base**exponent})" for base in (2, 3, 4) for exponent in range(5)
    )


def test_followed_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """A job without an end could be started and never be stopped."""
    lines = output_of("followed_orders", capsys)

    assert len([line for line in lines if line.startswith("{")]) == 20
    assert lines[-1] == "and then: CANCELED"


def test_spending_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """A payment would be judged by the limits that have come by chance, or not at all."""
    lines = output_of("spending_limits", capsys)

    assert sorted(lines) == ["block eve", "watch ada", "watch bob", "watch eve"]


def test_windows(capsys: pytest.CaptureFixture[str]) -> None:
    """The windows of Flink's paper would show other records than it says."""
    assert sorted(output_of("windows", capsys)) == sorted(
        [
            "sliding: 100",
            "sliding: 100 101 104",
            "sliding: 100 101 104 107",
            "sliding: 101 104 107",
            "sliding: 107",
            "sliding: 108",
            "sliding: 108 115",
            "sliding: 108 115",
            "sliding: 115",
            "session: 100 101 104 107",
            "session: 108 115",
            "delta: 100 101 104 107",
            "delta: 108 115",
            "punctuation: 100 101 104 107 0",
            "punctuation: 108 115 0",
            "landmark: 100 101 104",
            "landmark: 100 101 104 107 108 115",
            f"the last 100 of 1000: {sum(range(901, 1001))}",
            f"the last 100 of 1000: {sum(range(1901, 2001))}",
        ]
    )


def test_prices(capsys: pytest.CaptureFixture[str]) -> None:
    """The page on asynchronous I/O points to it."""
    assert output_of("prices", capsys) == ["tea: 3 euros", "jam: 4 euros", "milk: 1 euros", "salt: 2 euros"]


def test_payments_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A join by time would pair what is too far apart, or lose pairs."""
    assert sorted(output_of("payments_in_time", capsys)) == [
        "in time: milk, 1 euros after 2 s",
        "in time: milk, 1 euros after 3 s",
        "in time: salt, 1 euros after 0 s",
        "in time: tea, 3 euros after 1 s",
        "per minute: jam, 4 euros",
        "per minute: milk, 2 euros",
        "per minute: salt, 1 euros",
        "per minute: tea, 3 euros",
    ]


def test_top_pages(capsys: pytest.CaptureFixture[str]) -> None:
    """Windows over the results of windows would be in the wrong window, or never fire."""
    assert output_of("top_pages", capsys) == [" 0 s: home 17, shop 14, cart 10", "10 s: home 11, shop 10, cart 8"]


def test_first_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """State with a time to live would be forgotten at once, or be of all keys."""
    assert sorted(output_of("first_orders", capsys)) == ["welcome, ada: tea", "welcome, bob: jam", "welcome, eve: salt"]


def test_own_sink(capsys: pytest.CaptureFixture[str]) -> None:
    """The pattern for a sink of one's own would lose rows, or put an older one in place of a later one."""
    assert output_of("own_sink", capsys) == ["[('ada', 55), ('bob', 80), ('eve', 105)]"]


def test_counted_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures of one's own would be those of one subtask."""
    assert output_of("counted_orders", capsys)[-5:] == [
        "orders.broken: 2",
        "orders.euros.count: 4",
        "orders.euros.max: 80",
        "orders.euros.min: 10",
        "orders.euros.sum: 145",
    ]


@pytest.mark.soak
def test_plain_python_runs_an_example_too() -> None:
    """An IDE's run button would not do."""
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "late_clicks.py")], capture_output=True, text=True, timeout=120, check=False
    )

    assert run.returncode == 0, run.stderr
    assert "late> ('home', 3)" in run.stdout


def test_examples_stay_small_and_are_all_run_here() -> None:
    """An example that is never run breaks unnoticed, one that does not fit on a screen is hard to learn from."""
    examples = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}

    assert max(examples.values()) < 60
    assert examples.keys() <= tested
