"""hloscope: which elements of which tensors an HLO or StableHLO instruction touches."""
