"""What is asked of people, and what devices know of it."""
