"""`penstock run`: run a job's file."""

from __future__ import annotations

from penstock.cli.options import (
    AllowDuplicates,
    AllowNonRestored,
    Arguments,
    FromState,
    Job,
    Parallelism,
    PyFlink,
    Settings,
    program_context,
    settings_of,
)
from penstock.cli.script import run_script


def run(
    job: Job,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    settings: Settings = None,
    pyflink: PyFlink = False,
    from_state: FromState = None,
    allow_non_restored: AllowNonRestored = False,
    allow_duplicates: AllowDuplicates = False,
) -> None:
    """Run JOB as `python JOB` would, with defaults from the command line.

    What the job sets itself takes precedence over -p and -D. Options precede JOB; arguments after it belong to the job.

    
      penstock run job.py
      penstock run -p 4 job.py --input access.log
      penstock run -D execution.runtime-mode=BATCH -D spark.driver.memory=4g job.py
      penstock run -s latest -p 8 job.py
      penstock run --pyflink word_count.py
    """
    with program_context(settings_of(parallelism, settings, from_state, allow_non_restored, allow_duplicates), pyflink):
        run_script(job, arguments or [])
