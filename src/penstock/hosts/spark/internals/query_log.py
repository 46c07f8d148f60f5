"""What Spark notes of its streaming queries, in the directory of their checkpoints: the layout is its own."""

from __future__ import annotations

from pyarrow import fs

from penstock.common.files.file_systems import file_system_of


def last_commit(checkpoints: str) -> int:
    """The number of the last batch that a query has noted as written; -1: none. Raises OSError."""
    system, path = file_system_of(checkpoints)
    infos = system.get_file_info(fs.FileSelector(f"{path}/commits", allow_not_found=True))
    return max((int(info.base_name) for info in infos if info.base_name.isdigit()), default=-1)
