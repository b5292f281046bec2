"""Computes the rows of one trial, and writes its log."""
