"""Figures and tables of sections, which know no section."""
