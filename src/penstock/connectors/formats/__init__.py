"""Formats of values, shared by files and messages: nothing here knows what it is read from or written to."""
