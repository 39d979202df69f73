"""Code that every package uses: late imports, traversals, limits, source positions, the system."""
