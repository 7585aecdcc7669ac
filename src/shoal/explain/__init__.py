"""How results are put into words: one document, rendered for terminals, pages and notebooks."""
