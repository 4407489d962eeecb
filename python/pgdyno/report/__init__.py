"""Presents a run: terminal tables, one offline HTML file, PDF, CSV, JSON, Markdown."""
