"""What every room uses: late loading, traversals, limits, source positions, the system."""
