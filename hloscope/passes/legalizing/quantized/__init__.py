"""Quantized programs: integer arithmetic, or floats between dequantize and quantize."""
