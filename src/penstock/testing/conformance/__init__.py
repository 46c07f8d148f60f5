"""Suites that check any implementation of an interface: one call tests a new source or sink."""
