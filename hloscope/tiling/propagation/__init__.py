"""Rules that propagate tiles through ops, one file per op family, in both directions."""
