"""The DataStream API, by PyFlink's names."""
