"""Exactly what tiles read: images of boxes under maps, their holes, overlaps and counts."""
