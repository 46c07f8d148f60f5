"""Kafka: a source of topics, and a sink with transactions, on librdkafka."""
