"""The operators of patterns, which run in tasks: a filter before the exchange, and the automaton behind it."""
