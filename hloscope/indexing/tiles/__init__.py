"""Exact accesses of tiles: images of boxes under maps, their holes, overlaps and counts."""
