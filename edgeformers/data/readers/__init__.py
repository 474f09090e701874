"""Readers: every format becomes the same EdgeTable."""
