"""The only layer that knows time, disk and network."""
