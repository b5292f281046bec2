"""The kinds of analysis, one file each."""
