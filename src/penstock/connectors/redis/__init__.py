"""Redis: streams as a source, commands as a sink, and a lookup of hashes and values, on redis-py."""
