"""`specproxy probe`: what a target is, how fast, and which ways it can be sped up."""
