"""Code that all subpackages use: late loading, traversals, limits, the system, device figures."""
