"""Write the report as Markdown and as one HTML file."""
