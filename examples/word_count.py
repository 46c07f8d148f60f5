"""Word count: split, key, sum. Each word is printed with its running count.

penstock run examples/word_count.py
penstock run -D execution.runtime-mode=BATCH examples/word_count.py     only the last count of each word
"""

from penstock.datastream import StreamExecutionEnvironment

TEXT = [
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
]

env = StreamExecutionEnvironment.get_execution_environment()

(
    env.from_collection(TEXT)
    .flat_map(str.split)
    .map(lambda word: (word, 1))
    .key_by(lambda pair: pair[0])
    .reduce(lambda one, other: (one[0], one[1] + other[1]))
    .print()
)

env.execute("word count")
