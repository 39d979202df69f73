"""Two programs, two runs, two files of values: what is the same, and what differs first."""
