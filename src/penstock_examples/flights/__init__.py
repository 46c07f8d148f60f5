"""The flights that left New York in 2013, replayed as a stream: `penstock demo`, told in docs/flights.md.

flights.py    the data set, as columns of reports in the order in which they came
records.py    what flows: one report, and what the jobs make of reports
source.py     the replay, one split for each airport's feed, and its watermarks
airports.py   sliding windows of delay for each airport, with late reports on a side output
aircraft.py   how much of a delay an aircraft brought along, in keyed state and event-time timers
job.py        the program: all of these put together
kill.py       the worker that is killed part-way
ledger.py     the books: each report in its place, exactly once
report.py     progress while it runs, and the tables in the end
"""
