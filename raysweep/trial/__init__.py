"""What happens inside one trial, and its log."""
