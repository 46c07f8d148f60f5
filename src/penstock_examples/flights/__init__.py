"""The flights that left New York in 2013, replayed as a stream: `penstock demo`, described in docs/flights.md.

flights.py    the data set, as columns of reports in the order of the events
records.py    the record types: reports, and the results of the jobs
source.py     the replay, one split per feed (airport), and its watermarks
airports.py   sliding windows of delay per airport, with late reports on a side output
aircraft.py   the part of a delay caused by a late aircraft, with keyed state and event-time timers
job.py        the program that combines these
kill.py       the worker that is killed part-way
ledger.py     the accounting: each report is processed exactly once
report.py     progress while it runs, and the tables at the end
"""
