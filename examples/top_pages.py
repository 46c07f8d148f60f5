"""Windows over the results of windows: the three pages with the most clicks, every ten seconds.

The first windows count the clicks of each page. Their results have the last timestamp of their window, so windows of
the same length bring the counts of all pages together.

    penstock run examples/top_pages.py
"""

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import AggregateFunction, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

PAGES = ["home", "shop", "home", "cart", "home", "shop", "help", "home", "shop", "cart"]
CLICKS = [(page, second) for second in range(0, 20, 2) for page in PAGES[second // 4 :]]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, click, count):
        return count + 1

    def get_result(self, count):
        return count

    def merge(self, one, other):
        return one + other


def with_page(page, window, counts):
    yield from ((page, count) for count in counts)


def top_three(window, counts):
    best = sorted(counts, key=lambda pair: (-pair[1], pair[0]))[:3]
    yield f"{window.start // 1000:2} s: {', '.join(f'{page} {count}' for page, count in best)}"


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda click, _: click[1] * 1000)
ten_seconds = TumblingEventTimeWindows.of(Time.seconds(10))

clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(strategy)
counts = clicks.key_by(lambda click: click[0]).window(ten_seconds).aggregate(Count(), with_page)
counts.window_all(ten_seconds).apply(top_three).print()

env.execute("top pages")
