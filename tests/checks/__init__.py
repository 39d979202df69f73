"""Rules for CI."""
