"""llama-server, seen from outside: its HTTP API, its streams, its n-gram pool."""
