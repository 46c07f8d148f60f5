"""What operators with keys share: keys, state by slot, which rows are equal, rows that wait for their time."""
