"""Rules that propagate tiles through ops, in both directions; one file per op family."""
