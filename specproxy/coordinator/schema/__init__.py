"""From a JSON schema to a GBNF grammar.

A port of llama.cpp's common/json-schema.cpp and common/json-schema-to-grammar.cpp (MIT licence):
an answer under a schema is to be the one that llama-server gives, down to its spaces, so the
grammar has to be the same.
"""
