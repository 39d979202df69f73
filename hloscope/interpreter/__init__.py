"""The reference interpreter: every op on numpy arrays."""
