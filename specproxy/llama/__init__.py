"""The one importer of llama_cpp: typed, safe bindings to libllama."""
