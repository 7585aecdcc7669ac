"""The steps of the shuffler's tables; each says which step it follows."""
