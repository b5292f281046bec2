"""Sweeps that are disturbed at random moments and must come out as if they had been left alone: `make chaos`."""
