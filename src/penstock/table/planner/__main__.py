"""Fetches Flink's planner now, for an image, a CI, or a machine without network.

python -m penstock.table.planner            into the user's cache, where programs look for it
python -m penstock.table.planner FOLDER     into a folder, which PENSTOCK_FLINK_PLANNER names there
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.table.planner.errors import PlannerError
from penstock.table.planner.jars import fill, planner_directory
from penstock.table.planner.preparation import AFTER, prepare, prepare_after


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fetch the planner, prepare it for this machine's Java, and print where it is."""
    try:
        if arguments[:1] == [AFTER]:
            prepare_after(int(arguments[1]), Path(arguments[2]), environ)
            return 0
        if arguments:
            directory = Path(arguments[0]).absolute()
            fill(directory, environ)
        else:
            directory = planner_directory(environ)
        prepare(directory, environ)
    except PlannerError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 1
    print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
