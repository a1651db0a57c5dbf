"""The page at /specproxy/: three files that hold no data, and a stream of events that does."""
