"""One module per step; each says which step it follows."""
