"""A custom sink for a target without transactions: the latest total of each customer, in an SQLite table.

The records of a checkpoint are sent when it is complete, in one batch, and again if a process is killed at that moment.
That is harmless here: a row replaces the row with the same key.

    penstock run examples/own_sink.py
"""

import sqlite3
import tempfile
from pathlib import Path

from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import WriteAheadSink

ORDERS = [("ada", 30), ("bob", 80), ("ada", 25), ("eve", 10), ("eve", 95)]


class Totals(WriteAheadSink):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def validate(self):
        with sqlite3.connect(self.path) as table:
            table.execute("CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY, euros INTEGER)")

    def send_values(self, values, checkpoint_id, timestamp):
        with sqlite3.connect(self.path) as table:
            table.executemany("INSERT OR REPLACE INTO totals VALUES (?, ?)", values)
        return True


path = str(Path(tempfile.mkdtemp(prefix="penstock-")) / "totals.db")
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1_000)

totals = env.from_collection(ORDERS).key_by(lambda order: order[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
totals.uid("totals").sink_to(Totals(path)).uid("table")
env.execute("totals")

with sqlite3.connect(path) as table:
    print(table.execute("SELECT * FROM totals ORDER BY customer").fetchall())
