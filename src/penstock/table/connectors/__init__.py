"""Connectors of tables: what `'connector' = '...'` and the options of a table mean."""
