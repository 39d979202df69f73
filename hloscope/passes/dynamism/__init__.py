"""Dynamic sizes: from a module of unknown sizes to one whose sizes are known."""
