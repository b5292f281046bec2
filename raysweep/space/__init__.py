"""What is asked: the schema of a space, its YAML, the packaged spaces."""
