"""Laws as rows, by subject.  A table's order is the order in which its rows are tried."""
