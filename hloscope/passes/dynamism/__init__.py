"""Dynamic sizes: passes from a module of unknown sizes to one of known sizes."""
