"""Passes that know no dialect: what is written twice, what nobody reads, calls."""
