"""Files that a job sends to its workers in addition to its program: modules, archives, requirements, cached files.

The driver packs them into one file, the bundle (service/client/bundle.py). Spark sends it to each executor that runs a
task of the job (driver/job_session.py), and the first worker there unpacks it for all (worker/job_files.py).
"""

from __future__ import annotations

import msgspec

WORKING_DIRECTORY = "PENSTOCK_WORKING_DIRECTORY"
"""The environment variable with the program's working directory, for workers whose JVM has another one."""
PRELOADED = "PENSTOCK_PRELOADED"
"""The environment variable with the modules, separated by commas, that the jobs of a program need in their workers."""


class JobFiles(msgspec.Struct, frozen=True):
    """Name the files that a worker sets up before it loads a job's program. Paths are relative to the bundle."""

    path: list[str] = []
    """Folders of the driver's import path, for workers on the same machine: added at the end."""
    bundle: str = ""
    """Name of the bundle, a hash of its content. Empty if the job has no bundle."""
    modules: list[str] = []
    """Folders of the bundle that go to the front of the import path."""
    packed: list[tuple[str, str]] = []
    """Archives of modules, and the folders they are extracted to."""
    archives: list[tuple[str, str]] = []
    """Archives, and the folders they are extracted to, below the workers' working directory."""
    requirements: str = ""
    """The requirements file. Empty if there is none."""
    wheels: str = ""
    """The folder of packages from which pip installs requirements. Empty: pip uses its own sources."""
    cached: dict[str, str] = {}
    """Files and folders for functions, by the names under which functions get them."""

    @property
    def has_archives(self) -> bool:
        """Return whether workers get a working directory that belongs to the job."""
        return bool(self.archives)


def job_tag(job_id: str) -> str:
    """Return the tag of all Spark jobs of a job, by which they are canceled after the job's own process has ended."""
    return f"penstock-{job_id}"
