"""What travels with a job to its workers beside its program: modules, archives, requirements, cached files.

The driver packs it into one file, the bundle (service/client/bundle.py), which Spark sends to each executor that runs a
task of the job (driver/job_session.py); the first worker there unpacks it for all (worker/job_files.py).
"""

from __future__ import annotations

import msgspec

WORKING_DIRECTORY = "PENSTOCK_WORKING_DIRECTORY"
"""The environment variable with the program's working directory, for workers whose JVM has another one."""


class JobFiles(msgspec.Struct, frozen=True):
    """What a worker has to do before it loads the program of a job. Paths are relative to the unpacked bundle."""

    path: list[str] = []
    """Folders of the driver's import path, for workers on the same machine: added at the end."""
    bundle: str = ""
    """The name of the bundle, made from the content: equal names, equal content. Empty: there is none."""
    modules: list[str] = []
    """Folders of the bundle that go to the front of the import path."""
    packed: list[tuple[str, str]] = []
    """Archives of modules, and the folders they are extracted to."""
    archives: list[tuple[str, str]] = []
    """Archives, and where they are extracted to, below the workers' working directory."""
    requirements: str = ""
    """The requirements file. Empty: there is none."""
    wheels: str = ""
    """The folder of packages that requirements are installed from. Empty: from where pip finds them."""
    cached: dict[str, str] = {}
    """Files and folders for functions, by the names under which these ask for them."""

    @property
    def has_archives(self) -> bool:
        """Whether workers have a working directory of the job's."""
        return bool(self.archives)


# How all that Spark runs for a job is marked, so that it can be stopped when the job's own process is gone.


def job_tag(job_id: str) -> str:
    """The tag of a job's jobs, in Spark's sense of the word."""
    return f"penstock-{job_id}"
