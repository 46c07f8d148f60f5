"""Windows of time: slices, sessions, their aggregates, joins and first rows."""
