"""What specproxy decides: pure and synchronous; no clock, no I/O, no library but numpy."""
