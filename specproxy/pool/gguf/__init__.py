"""GGUF files as a pool sees them: headers alone, never the weights."""
