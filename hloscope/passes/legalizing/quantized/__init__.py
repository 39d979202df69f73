"""Quantised programs: as arithmetic on integers, as floats between quantize and dequantize."""
