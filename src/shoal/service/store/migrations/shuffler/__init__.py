"""The steps of the shuffler's tables."""
