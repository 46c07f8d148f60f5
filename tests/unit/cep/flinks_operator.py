"""Flink's own CEP operator as an oracle: random patterns in the notation of `../shared/data/cep`, and Flink's answers.

The operator is started from `../shared/tools/cep-oracle`, whose libraries Maven resolves; both may be absent.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[4] / "shared" / "tools" / "cep-oracle"
LETTERS = "aabbcd"
END_MS = 100
"""How long after the last event the time of a stream ends."""

Case = dict[str, Any]


class FlinksOperator:
    """The compiled oracle in a folder; skips the test where it can't be built."""

    def __init__(self, folder: Path) -> None:
        if not TOOL.is_dir():
            pytest.skip(f"{TOOL} is absent: it starts Flink's operator, and is not part of the project")
        for program in ("mvn", "javac", "java"):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is absent: Flink's operator needs Maven and a JDK")
        self.folder = folder
        path = folder / "class-path"
        pom = ("-f", str(TOOL / "pom-cep.xml"))
        _run("mvn", "-q", *pom, "dependency:build-classpath", f"-Dmdep.outputFile={path}")
        self.class_path = f"{folder}:{path.read_text(encoding='utf-8').strip()}"
        _run("javac", "-proc:none", "-cp", self.class_path, "-d", str(folder), str(TOOL / "Oracle.java"))

    def answers(self, cases: Sequence[Case]) -> list[Case]:
        """Return Flink's answer to each case: its results (`res`), or an `error`."""
        asked, answered = self.folder / "asked.jsonl", self.folder / "answered.jsonl"
        asked.write_text("".join(json.dumps(_asked(case)) + "\n" for case in cases), encoding="utf-8")
        _run("java", "-cp", self.class_path, "rec.Oracle", str(asked), str(answered))
        return [json.loads(line) for line in answered.read_text(encoding="utf-8").splitlines()]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}: {(done.stdout + done.stderr)[-2000:]}"


def _asked(case: Case) -> Case:
    labels = [(label, name) for label, name, _, _ in case["events"]]
    feed = [["e", label, time] for label, _, _, time in case["events"]] + [["wm", case["end"]]]
    return {"name": case["name"], "steps": _accepting(case["steps"], labels), "skip": case["skip"], "feed": feed}


def _accepting(steps: Sequence[Case], labels: Sequence[tuple[str, str]]) -> list[Case]:
    """The steps with the labels of the events that meet their conditions: the oracle knows no expressions."""
    answer = []
    for step in steps:
        found = dict(step)
        if "group" in step:
            found["group"] = _accepting(step["group"], labels)
        else:
            found["accept"] = [label for label, name in labels if name in _letters(step["where"])]
        if "until" in step:
            found["until_accept"] = [label for label, name in labels if name in _letters(step["until"])]
        answer.append(found)
    return answer


def _letters(condition: str) -> str:
    return condition.split("'")[1]


def random_case(chance: random.Random, number: int) -> Case:
    """Return a pattern of one to four steps or groups with a stream of up to twelve events."""
    steps: list[Case] = []
    names = (f"s{count}" for count in range(100))
    for _ in range(chance.choice([1, 2, 2, 2, 3, 3, 4])):
        before = steps[-1] if steps else None
        ways = ["next", "followedBy", "followedByAny"] * 3 + ["notNext", "notFollowedBy"]
        way = "begin" if before is None else chance.choice(ways)
        if before is not None and before.get("optional") and way.startswith("not"):
            way = "followedBy"
        if way.startswith("not"):
            steps.append(_step(chance, next(names), way))
        elif chance.random() < 0.2:
            inner = [_step(chance, next(names), "begin")]
            inner.append(_step(chance, next(names), chance.choice(["next", "followedBy", "followedByAny"])))
            if chance.random() < 0.3:
                _repeat(chance, inner[-1], is_group=False)
            steps.append({"op": way, "group": inner})
            _repeat(chance, steps[-1], is_group=True)
        else:
            steps.append(_step(chance, next(names), way))
            _repeat(chance, steps[-1], is_group=False)
            if chance.random() < 0.2 and not (before and before.get("greedy")):
                steps[-1]["optional"] = True
    if steps[-1]["op"] == "notFollowedBy" or chance.random() < 0.35:
        steps[-1]["within"] = chance.choice([2, 4, 6, 9])
    taken = [step["name"] for step in steps if "name" in step and not step["op"].startswith("not")]
    skip = {"kind": chance.choice(["no_skip"] * 4 + ["to_next", "past_last", "to_first", "to_last"])}
    if skip["kind"] in ("to_first", "to_last"):
        skip = {**skip, "name": chance.choice(taken)} if taken else {"kind": "no_skip"}
    events, time = [], 0
    for count in range(chance.randint(4, 12)):
        name, time = chance.choice("aaabbbccdx"), time + chance.choice([0, 1, 1, 1, 2])
        events.append([f"{name}{count}", name, 1.0, time])
    return {"name": str(number), "steps": steps, "skip": skip, "events": events, "end": time + END_MS}


def _step(chance: random.Random, name: str, way: str) -> Case:
    letters = "".join(sorted(chance.sample(LETTERS, 1 if chance.random() < 0.6 else 2)))
    return {"op": way, "name": name, "where": f"e.name in '{letters}'"}


def _repeat(chance: random.Random, step: Case, *, is_group: bool) -> None:
    if chance.random() < 0.5:
        return
    least = chance.randint(1, 3)
    step["times"] = [least, chance.choice([None, least, least + 1, least + 2])]
    step.update(chance.choice([{}, {}, {"inner": "consecutive"}, {"inner": "allowCombinations"}]))
    if is_group:
        return
    if step.get("inner") != "allowCombinations" and chance.random() < 0.3:
        step["greedy"] = True
    if step["times"][1] is None and chance.random() < 0.2:
        step["until"] = f"e.name in '{chance.choice(LETTERS)}'"
