"""Read Spark's log of a streaming query in the directory of its checkpoints. Spark does not document the layout."""

from __future__ import annotations

from pyarrow import fs

from penstock.common.files.file_systems import file_system_of


def last_commit(checkpoints: str) -> int:
    """Return the number of the last batch that a query has committed, -1 if there is none. Raises OSError."""
    system, path = file_system_of(checkpoints)
    infos = system.get_file_info(fs.FileSelector(f"{path}/commits", allow_not_found=True))
    return max((int(info.base_name) for info in infos if info.base_name.isdigit()), default=-1)
