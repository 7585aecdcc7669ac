"""The steps of the analyzer's tables."""
