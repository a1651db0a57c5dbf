"""llama-server's HTTP surface over an engine: requests in, its shapes out."""
