"""A job that is sent to a cluster is the same where it arrives: in a process that knows nothing of the program."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from penstock.api.sink import Committer
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, JobError, ProgramError
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, CommittedResults, PrintResults
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.spark.job_files import JobFiles
from penstock.service.client.executor import Submission
from penstock.service.client.packed_job import (
    JobDescription,
    PackedJob,
    other_version,
    packed,
    read_packed_job,
    repacked,
    unpacked,
)
from penstock.service.client.plan_executor import PlanExecutor

PROGRAM = """
import shutil
import sys
from dataclasses import dataclass
import msgspec
import beside
from penstock.service.client.executor import PipelineExecutor
from penstock.service.client.packed_job import packed
from penstock.datastream import StreamExecutionEnvironment

@dataclass
class Path:
    length: int

class Pack(PipelineExecutor):
    def execute(self, submission):
        job, bundle = packed(submission)
        open(sys.argv[1] + "/job", "wb").write(msgspec.msgpack.encode(job))
        shutil.copy(bundle, sys.argv[1])
        raise SystemExit

env = StreamExecutionEnvironment(executor=Pack())
env.set_parallelism(2)
env.from_collection([1, 2]).map(lambda n: Path(n + beside.ONE)).map(lambda path: path.length).print("lengths")
env.execute("paths")
"""
ARRIVES = """
import sys
from pathlib import Path as Folder
import msgspec
from penstock.service.client.packed_job import PackedJob, unpacked
from penstock.engine.plan.pickling import dump_level, load_level
job = msgspec.msgpack.decode((Folder(sys.argv[1]) / "job").read_bytes(), type=PackedJob)
submission = unpacked(job, Folder(sys.argv[1]))
graph = submission.graph
for level in graph.levels("id"):
    load_level(dump_level(level))
(sink,) = submission.result_sinks.values()
sink.accept(0, [7])
print(graph.name, graph.slots, sys.modules["__main__"].Path(3))
"""


def test_a_program_arrives_with_its_classes_and_the_modules_beside_it(tmp_path: Path) -> None:
    """A job would run from its program's process, and fail in a cluster by what its script defines or imports."""
    (tmp_path / "beside.py").write_text("ONE = 1")
    (tmp_path / "program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "program.py", str(tmp_path)], cwd=tmp_path, check=True)
    (tmp_path / "beside.py").unlink()
    arrived = subprocess.run(
        [sys.executable, "-c", ARRIVES, str(tmp_path)], cwd="/", check=True, capture_output=True, text=True
    )
    assert arrived.stdout == "lengths:1> 7\npaths 3 Path(length=3)\n"


def graph() -> tuple[JobGraph, Configuration]:
    """Of a small program."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    env.from_collection([1]).print()
    env.execute("small")
    return executor.graphs[0], Configuration.from_dict({"pipeline.name": "small", "parallelism.default": 3})


def test_what_the_dispatcher_has_to_know_can_be_read_without_the_code() -> None:
    """It would have to load code of users, and one program could harm all others."""
    plan, configuration = graph()
    job, _ = packed(Submission(plan, {0: PrintResults(None, False)}, configuration, None))
    description = msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=PackedJob).description
    assert (description.name, description.slots) == ("small", plan.slots)
    assert description.working_directory == str(Path.cwd())


@pytest.mark.parametrize("said", [{"slots": -5}, {"slots": 0}, {"bundle": "../../penstock"}, {"bundle": "x\0"}])
def test_what_no_client_says_of_a_job_is_refused(said: dict[str, object]) -> None:
    """A job would add to the slots that there are, or have a file of the cluster's user removed."""
    job = msgspec.to_builtins(packed(Submission(graph()[0], {}, Configuration(), None))[0])
    job["description"] |= said
    with pytest.raises(msgspec.ValidationError, match=next(iter(said))):
        msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=PackedJob)


def test_settings_arrive_as_they_were(tmp_path: Path) -> None:
    """A job would run in a cluster with other settings than at home."""
    plan, configuration = graph()
    job, _ = packed(Submission(plan, {}, configuration, None))
    # The bundle is not unpacked: nothing travels beside this program.
    submission = unpacked(msgspec.structs.replace(job, files=msgspec.structs.replace(job.files, bundle="")), tmp_path)
    assert submission.configuration.to_dict() == configuration.to_dict()
    assert submission.files is not None and submission.files[1] is None


def test_results_for_the_program_itself_are_refused() -> None:
    """A program would wait for values that a process elsewhere has."""
    plan, configuration = graph()
    with pytest.raises(ProgramError, match="execute_and_collect"):
        packed(Submission(plan, {0: CollectedResults()}, configuration, None))


def test_what_cannot_be_pickled_says_so() -> None:
    """The cluster would be blamed for a connection that a function holds."""
    plan, configuration = graph()
    sink = PrintResults(None, False, threading.Lock().acquire)
    with pytest.raises(ProgramError, match=r"the job 'small' can't be pickled .* Open it in the function's open"):
        packed(Submission(plan, {0: sink}, configuration, None))


def test_another_version_is_refused_with_both(tmp_path: Path) -> None:
    """Code of another Python would fail somewhere within, or do something else."""
    plan, configuration = graph()
    job, _ = packed(Submission(plan, {}, configuration, None))
    other = msgspec.structs.replace(job.description, python="3.99", version="9.9")
    with pytest.raises(ConfigurationError, match=r"the client has penstock 9\.9 on Python 3\.99, the cluster penstock"):
        unpacked(msgspec.structs.replace(job, description=other), tmp_path)
    assert "3.99" in other_version(other)


def test_a_kept_job_that_is_damaged_is_named(tmp_path: Path) -> None:
    """ "Input data was truncated" does not say of what: the disk of the cluster has failed, not the program."""
    file = tmp_path / "job"
    with pytest.raises(JobError, match=f"cannot read the submitted job {file}: No such file"):
        read_packed_job(file)
    file.write_bytes(b"\x86\xab")
    with pytest.raises(JobError, match=f"{file} is damaged: .*Submit the job again"):
        read_packed_job(file)


def test_any_bit_of_a_kept_job_may_be_another(tmp_path: Path) -> None:
    """A cluster would end, with all of its jobs, at each of its starts: what it raises must be one error."""
    file = tmp_path / "job"
    description = JobDescription("a job", 1, "1.0", "3.11")
    whole = msgspec.msgpack.encode(PackedJob(description, {"a": "b"}, b"program", b"", JobFiles(), False))
    file.write_bytes(whole)
    assert read_packed_job(file).description == description
    for position in range(len(whole)):
        for bit in (0x80, 0x01, 0x20):
            file.write_bytes(whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
            with contextlib.suppress(JobError):
                read_packed_job(file)


class Connected(Committer):
    """Keeps its connection, as those of Kafka and of S3 do."""

    def __init__(self) -> None:
        self.lock: object = None

    def commit(self, committables: Sequence[object]) -> None:
        self.lock = threading.Lock()

    def abort(self, committables: Sequence[object]) -> None:
        """Nothing to discard."""


def test_a_job_that_has_committed_is_kept_with_another_plan() -> None:
    """After an update, or with another parallelism, it would start again as it was before: its sinks are connected."""
    plan, configuration = graph()
    sink = CommittedResults(Connected())
    job, _ = packed(Submission(plan, {7: sink}, configuration, None))
    sink.commit(0, [])
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(sink)
    again, sinks = pickle.loads(repacked(job, plan.with_parallelism({v.id: 3 for v in plan.vertices})).program)
    assert {vertex.parallelism for vertex in again.vertices} == {3}
    assert isinstance(sinks[7], CommittedResults)
