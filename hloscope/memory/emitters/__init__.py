"""One module for each of XLA:GPU's emitters: its launch dimensions and thread maps."""
