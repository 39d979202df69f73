"""Maps of programs with unknown sizes, in terms of named sizes."""
