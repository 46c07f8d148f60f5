"""How a cluster takes and plans programs, over HTTP. That it runs them: tests/e2e/test_cluster.py."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.service.dispatcher import program_paths
from penstock.service.dispatcher.program_runs import kill_waiting_programs
from penstock.service.dispatcher.programs import Programs
from penstock.service.rest.application import guarded
from penstock.service.rest.token_server import TokenServer

PROGRAM = b"""
import sys
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(str).name("text").print()
env.execute(" ".join(sys.argv[1:]))
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    server = TokenServer("0", {"XDG_CACHE_HOME": str(tmp_path)}, 10.0)
    application = guarded(program_paths.routes, server.token, server.cookie)
    application.state.programs, application.state.address = Programs(tmp_path / "programs"), server.address
    application.state.token = server.token
    server.start(lambda: application, lambda: None, 1.0)
    headers = {"Authorization": f"Bearer {server.token}"}
    try:
        with httpx.Client(base_url=server.address.url, headers=headers, timeout=60) as found:
            yield found
    finally:
        server.close()


def upload(client: httpx.Client, name: str = "job.py", content: bytes = PROGRAM) -> str:
    answer = client.post("/jars/upload", files={"jarfile": (name, content)})
    assert answer.status_code == 200, answer.text
    return Path(answer.json()["filename"]).name


def errors(answer: httpx.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    (text,) = answer.json()["errors"]
    return str(text)


def test_programs_are_listed_as_flinks_clients_read_jars(client: httpx.Client) -> None:
    """Flink's page for new jobs would be empty, or fail."""
    assert client.get("/config").json()["features"]["web-submit"]
    id = upload(client)
    listed = client.get("/jars").json()
    (file,) = listed["files"]
    assert listed["address"] == str(client.base_url).rstrip("/")
    assert {**file, "uploaded": 0} == {
        "id": id, "name": "job.py", "uploaded": 0, "entry": [{"name": "job.py", "description": None}],
    }  # fmt: skip
    assert re.fullmatch(r"[0-9a-f-]{36}_job\.py", id)
    assert client.delete(f"/jars/{id}").json() == {}
    assert client.get("/jars").json()["files"] == []
    assert "not found" in errors(client.delete(f"/jars/{id}"), 404)


def test_a_program_larger_than_memory_for_forms(client: httpx.Client) -> None:
    """Programs with their data in a zip would be cut off, or refused."""
    content = PROGRAM + b"#" * 20_000_000
    id = upload(client, content=content)
    assert client.get("/jars").json()["files"][0]["id"] == id


@pytest.mark.parametrize("form", [{}, {"data": {"jarfile": "text"}}, {"content": b"bytes"}])
def test_a_request_without_a_file_is_told_what_to_send(client: httpx.Client, form: dict[str, Any]) -> None:
    """A user of curl would have to guess, or get a traceback."""
    assert "expected a form with one file, such as curl -F jarfile=@job.py" in errors(
        client.post("/jars/upload", **form)
    )


def test_what_can_not_be_kept_is_told(client: httpx.Client, tmp_path: Path) -> None:
    """A user whose cluster has a full disk would look for the fault in the program."""
    (tmp_path / "programs").write_text("in the way")
    answer = client.post("/jars/upload", files={"jarfile": ("job.py", PROGRAM)})
    assert "the cluster cannot store the program" in errors(answer, 507)


@pytest.mark.thorough
def test_a_plan_says_what_would_run(client: httpx.Client) -> None:
    """Flink's page shows it before a job is submitted."""
    id = upload(client)
    by_query = client.get(f"/jars/{id}/plan", params={"program-args": "a 'b c'", "parallelism": "3"}).json()
    by_body = client.post(f"/jars/{id}/plan", json={"programArgsList": ["a", "b c"], "parallelism": 3}).json()
    assert by_query["plan"] | {"jid": ""} == by_body["plan"] | {"jid": ""}
    assert by_query["plan"]["name"] == "a b c"
    assert "text" in by_query["plan"]["nodes"][-1]["description"]
    assert 3 in {node["parallelism"] for node in by_query["plan"]["nodes"]}


@pytest.mark.thorough
def test_a_program_that_fails_says_why(client: httpx.Client) -> None:
    """A user would see that it has failed, and have to look for the cluster's log."""
    id = upload(client, content=b"1 / 0")
    assert "ZeroDivisionError: division by zero" in errors(client.get(f"/jars/{id}/plan"))
    assert "ZeroDivisionError: division by zero" in errors(client.post(f"/jars/{id}/run"))
    id = upload(client, content=b"print('nothing')")
    assert "without executing a job" in errors(client.post(f"/jars/{id}/run"))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"jobId": "0" * 32}, "jobId is not supported"),
        ({"claimMode": "CLAIM"}, "claimMode must be NO_CLAIM"),
        ({"programArgs": "'open"}, "programArgs: No closing quotation"),
        ({"parallelism": "many"}, "parallelism"),
        ({"parallelism": -1}, "parallelism"),
        ({"programArgsList": ["a\0b"]}, "cannot start the program: embedded null byte"),
        ({"entryClass": "../../x.py"}, "has no file '../../x.py'"),
        ({"flinkConfiguration": {"paralelism.default": "2"}}, "parallelism.default"),
    ],
)
def test_a_request_that_can_not_be_met_is_refused(client: httpx.Client, wanted: dict[str, Any], text: str) -> None:
    """What was asked for would be left out in silence."""
    id = upload(client)
    assert text in errors(client.post(f"/jars/{id}/run", json=wanted))


def test_what_flinks_page_leaves_empty_is_not_said(client: httpx.Client) -> None:
    """It sends an empty text, or null, for each field that its user has left alone."""
    id = upload(client)
    empty = {
        "entryClass": "",
        "programArgs": "",
        "parallelism": None,
        "savepointPath": "",
        "allowNonRestoredState": None,
    }
    assert client.post(f"/jars/{id}/plan", json=empty).json()["plan"]["nodes"]


@pytest.mark.thorough
def test_what_a_program_has_left_running_is_not_waited_for(client: httpx.Client, tmp_path: Path) -> None:
    """The answer to a program that has failed would come when all that it has started has ended, if ever."""
    pids = tmp_path / "pids"
    program = f"""
import subprocess
left = subprocess.Popen(["sleep", "100"])
open({str(pids)!r}, "a").write(f"{{left.pid}}\\n")
1 / 0
"""
    id = upload(client, content=program.encode())
    began_s = time.monotonic()
    assert "ZeroDivisionError" in errors(client.get(f"/jars/{id}/plan"))
    assert "ZeroDivisionError" in errors(client.post(f"/jars/{id}/run"))
    assert time.monotonic() - began_s < 50
    for pid in pids.read_text().split():
        # The kernel ends it a moment later.
        while runs(pid):
            assert time.monotonic() - began_s < 50
            time.sleep(0.05)


def runs(pid: str) -> bool:
    try:
        status = Path("/proc", pid, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # Z: nobody has asked yet how it has ended.
    return ") Z " not in status


@pytest.mark.thorough
def test_objects_that_a_program_writes_are_words(client: httpx.Client) -> None:
    """A program whose log is JSON would be answered with an id of no job, a plan that is none, or after ten minutes."""
    said = """
import json, sys
for stream in (sys.stdout, sys.stderr):
    for found in ({"event": "taken"}, {"event": "taken", "job_id": 7}, {"nodes": []}, {"level": "fatal"}):
        print(json.dumps(found), file=stream)
    print("[" * 100_000, file=stream, flush=True)
"""
    id = upload(client, content=said.encode() + PROGRAM)
    assert client.get(f"/jars/{id}/plan").json()["plan"]["nodes"]
    id = upload(client, content=said.replace("100_000", "10_000").encode())
    assert '{"level": "fatal"}' in errors(client.post(f"/jars/{id}/run"))


def test_one_that_others_remove_as_well(client: httpx.Client) -> None:
    """Who removes a program that is gone at this moment would be told of an error of the cluster."""
    for _ in range(5):
        id = upload(client)
        with ThreadPoolExecutor(6) as threads:
            answers = [future.result() for future in [threads.submit(client.delete, f"/jars/{id}") for _ in range(6)]]
        assert sorted(answer.status_code for answer in answers) == [200, *[404] * 5]


def test_a_program_that_hangs_ends_with_the_cluster(client: httpx.Client, tmp_path: Path) -> None:
    """It would stay for ever, with nobody who knows of it."""
    began = tmp_path / "began"
    program = f"import time\nopen({str(began)!r}, 'w')\ntime.sleep(1000)\n"
    id = upload(client, content=program.encode())
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(client.post, f"/jars/{id}/run")
        while not began.exists():
            time.sleep(0.05)
        kill_waiting_programs()
        assert "executed no job" in errors(answer.result(30))
