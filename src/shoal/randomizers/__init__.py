"""What a device runs. Each randomizer knows its own blanket law."""
