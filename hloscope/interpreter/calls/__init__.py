"""Custom calls whose meaning is known: those of vendors, of XLA itself, of the user."""
