"""Three proofs that no eigenvalue of a walk but the first exceeds a number in size."""
