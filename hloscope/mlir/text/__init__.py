"""MLIR as text: lexer, parser, printer and pretty forms."""
