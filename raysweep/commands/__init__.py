"""What the command line shows."""
