"""The part of Kafka's protocol that ends a transaction of another client."""
