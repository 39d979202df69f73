"""What the analysis claims, measured: against execution, isl and XLA's own prints."""
