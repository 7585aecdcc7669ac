"""The accountant: numbers in, certified numbers out."""
