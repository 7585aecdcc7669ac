"""Where columns are read and reports are shuffled, a chunk at a time."""
