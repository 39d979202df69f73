"""What each operation is: one class per op, in files named after the op families."""
