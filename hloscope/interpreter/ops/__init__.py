"""How each op is evaluated, in files named after the op families."""
