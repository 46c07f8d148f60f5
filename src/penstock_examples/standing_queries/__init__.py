"""Standing queries: analysts ask, and stop to ask, while the flights flow. Described in docs/standing-queries.md.

expressions.py   the language of filters and values: parsed by `ast`, never evaluated by Python
queries.py       what an analyst sends, and the state of a pane
answering.py     the operator: queries in broadcast state, panes of all of them in one keyed state
job.py           the program

After RBEA, section 5 of "State Management in Apache Flink" (Carbone et al., VLDB 2017).
"""
