"""Tests of the PTX reader and interpreter."""
