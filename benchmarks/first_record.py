"""The smallest job, like a user's: `start.py` waits for its first line of output."""

from __future__ import annotations

from penstock.datastream import StreamExecutionEnvironment


def main() -> None:
    """Run it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    words = env.from_collection(["to", "be", "or", "not", "to", "be"]).map(lambda word: (word, 1))
    words.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    env.execute("first record")


if __name__ == "__main__":
    main()
