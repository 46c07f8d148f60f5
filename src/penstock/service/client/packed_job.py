"""A job as it travels to a cluster: its graph with its code, and what that needs.

A client writes it, and the process that runs the job reads it. The dispatcher between them reads what is said about it,
and none of its code.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

import penstock
from penstock.common.configuration import Configuration
from penstock.common.doors import pyflink_alias
from penstock.common.errors import ConfigurationError, JobError, ProgramError
from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.values.decoding import from_msgpack
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, ResultSink
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_main_classes, load_main_classes
from penstock.hosts.spark.job_files import JobFiles
from penstock.hosts.spark.payload import this_python
from penstock.hosts.spark.worker.job_files import WorkerOfJob
from penstock.service.client.bundle import BUNDLE_NAME, bundle
from penstock.service.client.dependencies import Dependencies
from penstock.service.client.executor import Submission
from penstock.service.client.script_modules import import_folders, script_modules


class JobDescription(msgspec.Struct, frozen=True):
    """What a dispatcher has to know of a job that it starts."""

    name: str
    slots: Annotated[int, msgspec.Meta(ge=1)]
    """How many it needs at once."""
    version: str
    """Of penstock."""
    python: str
    """Its version, up to the second number: code of another one can't be loaded."""
    bundle: Annotated[str, msgspec.Meta(pattern=rf"\A({BUNDLE_NAME})?\Z")] = ""
    """The name of the file with all that travels beside the program, made from its content. Empty: there is none."""
    working_directory: str = ""
    """Of the program. The job has the same, where it exists: paths in programs are relative to it."""


class PackedJob(msgspec.Struct, frozen=True):
    """A job, to be unpacked by a process of its own."""

    description: JobDescription
    configuration: dict[str, str]
    program: bytes
    """The graph and the sinks of results, pickled."""
    main_classes: bytes
    files: JobFiles
    pyflink: bool


def packed(submission: Submission) -> tuple[PackedJob, Path | None]:
    """A job to be sent, and its bundle, which lasts as long as this process.

    Raises ProgramError if part of it can't be sent, or if its results are to come back to the program.
    """
    graph, configuration = submission.graph, submission.configuration
    _check_results(submission.result_sinks)
    files, path = bundle(Dependencies.of(configuration).and_modules(script_modules()))
    # Where the cluster is on this machine, it finds what this process finds.
    files = msgspec.structs.replace(files, path=import_folders())
    try:
        program = program_pickler.dumps((graph, dict(submission.result_sinks)))
    except Exception as error:
        raise ProgramError(
            f"the job '{graph.name}' can't be pickled and so can't be sent to a cluster: {type(error).__name__}: "
            f"{error}. Usual cause: a function, source or sink that refers to something open or bound to this process "
            "(a connection, lock, file, generator). Open it in the function's open() instead"
        ) from error
    description = JobDescription(
        graph.name, graph.slots, penstock.__version__, this_python(), files.bundle, str(Path.cwd())
    )
    return PackedJob(
        description, configuration.to_dict(), program, dump_main_classes(), files, pyflink_alias.is_installed()
    ), path


def read_packed_job(file: Path) -> PackedJob:
    """The job that is kept in a file. Raises JobError, which names it, if it can't be read."""
    try:
        return from_msgpack(file.read_bytes(), PackedJob)
    except OSError as error:
        raise JobError(f"the job as its client has sent it, {file}, can't be read: {error.strerror}") from None
    except UNREADABLE as error:
        raise JobError(f"the job as its client has sent it, {file}, is damaged: {error}. Submit it anew") from None


def repacked(job: PackedJob, graph: JobGraph) -> PackedJob:
    """The same job with another graph. Called by the process that runs it.

    Its sinks are those that were sent: those that it uses have open connections by now.
    """
    _, sinks = pickle.loads(job.program)
    program = program_pickler.dumps((graph, sinks))
    return msgspec.structs.replace(job, program=program, main_classes=dump_main_classes())


def _check_results(sinks: Mapping[int, ResultSink]) -> None:
    if any(isinstance(sink, CollectedResults) for sink in sinks.values()):
        raise ProgramError(
            "execute_and_collect() and cache() give results to the program itself, and this job runs on a cluster, in "
            "a process of its own: write them with sink_to(), or print() them, or run the program without "
            "execution.target: remote (penstock run without -m)"
        )


def unpacked(job: PackedJob, root: Path) -> Submission:
    """The job, to be run by this process, which becomes that of the job: its modules are found from now on.

    `root`: the folder with the bundle. Raises ProgramError if it can't be loaded, ConfigurationError if penstock or
    Python are not those of the client, or its requirements can't be installed.
    """
    description = job.description
    if (description.version, description.python) != (penstock.__version__, this_python()):
        raise ConfigurationError(other_version(description))
    WorkerOfJob(job.files, root)
    if job.pyflink:
        pyflink_alias.install()
    load_main_classes(job.main_classes)
    try:
        graph, sinks = pickle.loads(job.program)
    except Exception as error:
        raise ProgramError(
            f"the job '{description.name}' can't be unpickled here: {type(error).__name__}: {error}. Usual causes: a "
            "module that is not there (env.add_python_file sends it), another version of a package"
        ) from error
    return _submission(graph, sinks, job, root)


def _submission(graph: JobGraph, sinks: dict[int, Any], job: PackedJob, root: Path) -> Submission:
    path = root / job.files.bundle if job.files.bundle else None
    return Submission(graph, sinks, Configuration.from_dict(job.configuration), None, files=(job.files, path))


def other_version(description: JobDescription) -> str:
    """A sentence about a client that is not like this process."""
    return (
        f"the client has penstock {description.version} on Python {description.python}, the cluster penstock "
        f"{penstock.__version__} on Python {this_python()}: install the same version on both"
    )
