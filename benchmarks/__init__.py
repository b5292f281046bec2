"""Benchmarks: `make bench` prints the table of docs/speed.md."""
