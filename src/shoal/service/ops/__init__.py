"""A party's directory, processes, health, logs, metrics and backups, and both on one machine."""
