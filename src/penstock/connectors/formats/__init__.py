"""Formats of values, shared by files and messages. Code here is independent of where bytes come from and go to."""
