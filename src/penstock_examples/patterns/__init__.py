"""Patterns in streams: nine small programs, each a function from events to what was found."""
