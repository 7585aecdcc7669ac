"""Shuffling by people passing reports to each other: graphs, walks on them, and how they mix."""
