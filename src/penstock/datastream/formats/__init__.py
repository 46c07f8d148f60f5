"""File formats, at PyFlink's module paths."""
