"""MATCH_RECOGNIZE: patterns of rows, their conditions and measures."""
