"""Examples that are programs of some size, written with the public API. They are installed beside penstock."""
