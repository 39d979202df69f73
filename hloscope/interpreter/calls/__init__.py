"""Custom calls with known semantics: of vendor libraries, of XLA and JAX, and of the user."""
