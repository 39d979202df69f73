"""Maps of programs whose sizes are not known, in terms of sizes that have names."""
