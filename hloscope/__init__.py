"""hloscope: which elements of which tensors an HLO or StableHLO instruction touches."""

__version__ = "0.1.0"
