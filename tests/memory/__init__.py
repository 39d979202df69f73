"""Thread maps, coalescing, banks and footprints."""
