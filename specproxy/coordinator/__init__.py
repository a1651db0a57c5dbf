"""Our own target: the same GGUF over the same RPC workers, but the pass is ours."""
