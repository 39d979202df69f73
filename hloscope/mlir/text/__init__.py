"""MLIR as text: tokens, reader, printer, pretty forms."""
