"""Tests of the room `tiling`."""
