"""The HTTP proxy: what clients see."""
