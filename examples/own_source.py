"""A custom source: the first terms of several series, each series a split with a position.

An enumerator assigns splits, readers read them. Only `read` is new here, the rest is part of penstock. It returns a
chunk and the next position, so a restart continues in the middle of a series; see docs/how-to/own-source.md.

    penstock run -p 2 examples/own_source.py
"""

from dataclasses import dataclass, replace

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import Boundedness, Chunk, FixedSplitEnumerator, Source, SplitReader


@dataclass(frozen=True)
class Powers:
    index: int
    exponent: int = 0

    @property
    def split_id(self):
        return f"powers of {self.index + 2}"


class PowersReader(SplitReader):
    def __init__(self, context, count):
        super().__init__(context)
        self.count = count

    def read(self, split, max_records):
        last = min(split.exponent + max_records, self.count)
        values = [(split.split_id, (split.index + 2) ** exponent) for exponent in range(split.exponent, last)]
        return Chunk(values, replace(split, exponent=last) if last < self.count else None)


@dataclass
class PowersSource(Source):
    bases: int
    count: int

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, context):
        return FixedSplitEnumerator(context, map(Powers, range(self.bases)))

    def create_reader(self, context):
        return PowersReader(context, self.count)


env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(PowersSource(bases=3, count=5), WatermarkStrategy.no_watermarks(), "powers").print()
env.execute("custom source")
