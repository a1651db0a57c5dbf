"""Speculative decoding for llama.cpp RPC pools, as a proxy."""

__version__ = "0.1.0"
