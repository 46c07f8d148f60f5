"""How commands name a job: by its name, its id, or a prefix of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Job = TypeVar("Job")


def matching_jobs(
    reference: str, jobs: Sequence[Job], name_of: Callable[[Job], str], ids_of: Callable[[Job], Iterable[str]]
) -> list[Job]:
    """Return the jobs with this name or id or, without any, those whose id starts with `reference`.

    An empty reference matches no job, although all ids start with it.
    """
    id = reference.strip().lower()
    if not id:
        return []
    named = [job for job in jobs if is_named(reference, name_of(job), ids_of(job))]
    return named or [job for job in jobs if any(known.startswith(id) for known in ids_of(job))]


def is_named(reference: str, name: str, ids: Iterable[str]) -> bool:
    """Return whether `reference` is the job's name or whole id, not only a prefix of its id."""
    return reference == name or reference.strip().lower() in ids


def newest_named(
    name: str, jobs: Iterable[Job], name_of: Callable[[Job], str], has_ended: Callable[[Job], bool]
) -> Job | None:
    """Return the job with this name, of several the newest that runs, else the newest. `jobs`: the oldest first."""
    named = [job for job in jobs if name_of(job) == name]
    return next(reversed([job for job in named if not has_ended(job)] or named), None)
