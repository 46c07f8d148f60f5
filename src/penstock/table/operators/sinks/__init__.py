"""In front of a table that is written: constraints, the rows of primary keys, event times."""
