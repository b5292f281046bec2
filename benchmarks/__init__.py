"""Benchmarks: `make bench` prints the table of the README."""
