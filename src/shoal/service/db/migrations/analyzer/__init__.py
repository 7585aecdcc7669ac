"""The steps of the analyzer's tables; each says which step it follows."""
