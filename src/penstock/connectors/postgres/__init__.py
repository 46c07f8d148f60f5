"""PostgreSQL: sources of rows and of changes, and a sink in batches or in prepared transactions, on psycopg."""
