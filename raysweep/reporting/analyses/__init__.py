"""One module for each kind of analysis: its fit, figures, tables and text."""
