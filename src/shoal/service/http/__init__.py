"""What every HTTP service here shares: problems, limits, bodies, and a document of its routes."""
