"""Closed forms that the sweeps are held against: pure functions on float64 arrays, no randomness."""
