"""Formats of tables: what is in a message or a line, as columns. Connectors compose them by `'format' = '...'`."""
