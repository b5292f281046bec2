"""Closed forms with which sweeps are compared: pure functions on float64 arrays, without randomness."""
