"""Is what comes through the proxy what the target alone says? Checks, on real servers."""
