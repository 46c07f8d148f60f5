"""Pages about jobs: a client of REST endpoints, in a process of its own. Needs the extra `dashboard`."""
