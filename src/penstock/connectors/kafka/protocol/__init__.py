"""As much of Kafka's protocol as ends a transaction that another client has begun."""
