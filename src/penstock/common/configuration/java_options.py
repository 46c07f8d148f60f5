"""Flink's options about values and functions in Java.

They are known, and reported when they are set: none has an effect, as no value of a job is Java's here.
Source: Flink docs, "Configuration", Pipeline.
"""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.configuration.closure_cleaner_level import ClosureCleanerLevel

_key = ConfigOptions.key

CLOSURE_CLEANER_LEVEL = (
    _key("pipeline.closure-cleaner-level")
    .enum_type(ClosureCleanerLevel)
    .default_value(ClosureCleanerLevel.RECURSIVE)
    .with_description("Which fields of functions Flink empties. No effect: cloudpickle takes along what is used.")
)
FORCE_KRYO = (
    _key("pipeline.force-kryo")
    .boolean_type()
    .default_value(False)
    .with_description("Whether Flink serializes POJOs by Kryo. No effect: values are pickled.")
)
FORCE_AVRO = (
    _key("pipeline.force-avro")
    .boolean_type()
    .default_value(False)
    .with_description("Whether Flink serializes POJOs by Avro. No effect: values are pickled.")
)
