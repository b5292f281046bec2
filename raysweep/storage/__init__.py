"""Folders and buckets: atomic publication, conditional creation, leases."""
