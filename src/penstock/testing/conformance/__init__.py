"""Conformance suites: one call tests an implementation of an interface, such as a source or sink."""
