"""Shardy's own verification: meshes, shardings, manual computations, collectives."""

from hloscope.verifier.shardy.walk import check_shardy as check_shardy
