"""A job as it travels to a cluster: its graph with its code, and what that needs.

A client writes it, and the process that runs the job reads it. The dispatcher between them reads its description, and
loads none of its code.
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
from penstock.common.values.decoding import DECODING_ERRORS, from_msgpack
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, ResultSink
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_main_classes, load_main_classes
from penstock.hosts.spark.job_files import JobFiles
from penstock.hosts.spark.payload import this_python
from penstock.hosts.spark.worker.job_files import FileSetup
from penstock.service.client.bundle import BUNDLE_NAME, bundle
from penstock.service.client.dependencies import Dependencies
from penstock.service.client.executor import Submission
from penstock.service.client.script_modules import import_folders, script_modules


class JobDescription(msgspec.Struct, frozen=True):
    """The facts that a dispatcher needs about a job."""

    name: str
    slots: Annotated[int, msgspec.Meta(ge=1)]
    """The number of slots that the job needs at once."""
    version: str
    """The client's version of penstock."""
    python: str
    """The client's version of Python, up to the second number: code of another version can't be loaded."""
    bundle: Annotated[str, msgspec.Meta(pattern=rf"\A({BUNDLE_NAME})?\Z")] = ""
    """The name, made from the content, of the file with everything that travels with the program. Empty: no file."""
    working_directory: str = ""
    """The working directory of the program: paths in programs are relative to it. The job uses it where it exists."""


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
    """Pack a job. Return it with its bundle, which exists as long as this process.

    Raises ProgramError if part of it can't be sent, or if its results would have to come back to the program.
    """
    graph, configuration = submission.graph, submission.configuration
    _check_results(submission.result_sinks)
    files, path = bundle(Dependencies.of(configuration).with_modules(script_modules()))
    # If the cluster runs on this machine, it finds the modules that this process finds.
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
        name=graph.name,
        slots=graph.slots,
        version=penstock.__version__,
        python=this_python(),
        bundle=files.bundle,
        working_directory=str(Path.cwd()),
    )
    return PackedJob(
        description=description,
        configuration=configuration.to_dict(),
        program=program,
        main_classes=dump_main_classes(),
        files=files,
        pyflink=pyflink_alias.is_installed(),
    ), path


def read_packed_job(file: Path) -> PackedJob:
    """Read a job from a file. Raises JobError, which names the file, if it can't be read."""
    try:
        return from_msgpack(file.read_bytes(), PackedJob)
    except OSError as error:
        raise JobError(f"cannot read the submitted job {file}: {error.strerror}") from None
    except DECODING_ERRORS as error:
        raise JobError(f"the submitted job {file} is damaged: {error}. Submit the job again") from None


def repacked(job: PackedJob, graph: JobGraph) -> PackedJob:
    """Return the same job with another graph. Called by the process that runs the job.

    Keeps the sinks that were sent: those in use have open connections by now.
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
    """Unpack the job, to be run by this process, which adds the job's modules to its import path.

    `root`: the folder with the bundle. Raises ProgramError if the job can't be loaded, ConfigurationError if penstock
    or Python differ from the client's, or its requirements can't be installed.
    """
    description = job.description
    if (description.version, description.python) != (penstock.__version__, this_python()):
        raise ConfigurationError(other_version(description))
    FileSetup(job.files, root)
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
    """Return a sentence about a client whose versions differ from this process's."""
    return (
        f"the client has penstock {description.version} on Python {description.python}, the cluster penstock "
        f"{penstock.__version__} on Python {this_python()}: install the same version on both"
    )
