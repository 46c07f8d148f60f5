"""How commands name a job: by its name, its id, or the beginning of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Job = TypeVar("Job")


def referred_to(
    reference: str, jobs: Sequence[Job], name_of: Callable[[Job], str], ids_of: Callable[[Job], Iterable[str]]
) -> list[Job]:
    """The jobs with this name or this id; where there are none, those with an id that begins so.

    All ids begin with nothing: what is empty is none of them.
    """
    id = reference.strip().lower()
    if not id:
        return []
    named = [job for job in jobs if is_named(reference, name_of(job), ids_of(job))]
    return named or [job for job in jobs if any(known.startswith(id) for known in ids_of(job))]


def is_named(reference: str, name: str, ids: Iterable[str]) -> bool:
    """Whether this is the job's name or its id, and not only the beginning of its id."""
    return reference == name or reference.strip().lower() in ids
