"""What a run shows of itself: terminal tables, one offline HTML file, CSV, JSON, Markdown."""
