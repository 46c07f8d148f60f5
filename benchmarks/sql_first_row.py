"""`penstock sql -e` on a small file: from the command to its first row, cold and with kept processes.

python -m benchmarks.sql_first_row --rounds 3

Complete processes, as at a terminal. Cold: with the archives of classes, and no JVM that is kept. Kept: Spark's JVM and
the planner's process are those of the command before. CPU time until the first row is that of this command's processes:
of kept ones it is unknown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measurement import tell
from benchmarks.start import first_line
from penstock.hosts.spark.driver.jvm_lease import end_free_jvms

_ROWS = "JFK,20\nEWR,5\nJFK,40\n"
_TABLE = """CREATE TABLE flights (airport STRING, delay INT)
WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')"""
_QUERY = "SELECT airport, SUM(delay) AS delay FROM flights GROUP BY airport"
_KEPT = {"PENSTOCK_KEEP_SESSION": "true"}


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("cold", "kept"), help="by default both")
    arguments = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "flights.csv")
        file.write_text(_ROWS, encoding="utf-8")
        penstock = str(Path(sys.executable).with_name("penstock"))
        patient = ("-D", "penstock.spark.start-timeout=20 min")
        command = (penstock, "sql", *patient, "-o", "json", "-e", _TABLE.format(file), "-e", _QUERY)
        rounds = range(arguments.rounds)
        if arguments.only != "kept":
            runs = [first_line(*command) for _ in rounds]
            found["cold_s"] = statistics.median(run[0] for run in runs)
            found["cold_jvm_cpu_s"] = statistics.median(run[2].jvm_cpu_s for run in runs)
            found["cold_python_cpu_s"] = statistics.median(run[2].python_cpu_s for run in runs)
        if arguments.only != "cold":
            try:
                first_line(*command, **_KEPT)
                runs = [first_line(*command, **_KEPT) for _ in rounds]
            finally:
                end_free_jvms(os.environ)
            found["kept_s"] = statistics.median(run[0] for run in runs)
            found["kept_python_cpu_s"] = statistics.median(run[2].python_cpu_s for run in runs)
    tell(found)


if __name__ == "__main__":
    main()
