"""Clusters of points, by k-means: each superstep moves the centers to the middle of the points nearest to them.

Each subtask keeps its points, and only the centers go round. The iteration ends when no center moves any more.

    penstock run examples/k_means.py
"""

from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.iteration import iterate, superstep_windows, with_broadcast_set

POINTS = [(1.0, 1.0), (1.5, 2.0), (1.0, 1.5), (8.0, 8.0), (9.0, 8.5), (8.5, 9.0), (1.0, 9.0), (4.5, 8.5)]
CENTERS = [(0, 1.0, 1.0), (1, 1.5, 8.0), (2, 8.0, 8.0)]


def assign(points, centers):
    """Yield for each point of a subtask the nearest of all centers."""
    for x, y in points:
        number, at_x, at_y = min(centers, key=lambda c: ((x - c[1]) ** 2 + (y - c[2]) ** 2, c[0]))
        yield number, at_x, at_y, x, y, 1


def add(one, other):
    return (*one[:3], one[3] + other[3], one[4] + other[4], one[5] + other[5])


def moved(total):
    number, _, _, x, y, count = total
    return number, round(x / count, 6), round(y / count, 6)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)

centers = iterate(env.from_collection(CENTERS), supersteps_max=50)
points = centers.replay(env.from_collection(POINTS).rebalance())  # all of them in each superstep
assigned = with_broadcast_set(points, centers, assign)
totals = assigned.key_by(lambda point: point[0]).window(superstep_windows()).reduce(add)
changed = totals.filter(lambda total: moved(total) != total[:3])
final = centers.close_with(totals.map(moved).rebalance(), termination=changed)

final.map(lambda center: "center {} at {:.2f}, {:.2f}".format(*center)).print()

env.execute("k-means")
