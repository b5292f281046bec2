"""MLflow: what a sweep looks like there, and how it gets there."""
