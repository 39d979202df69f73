"""Code that all subpackages use: late loading, traversals, limits, source positions, the system."""
