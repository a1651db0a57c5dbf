"""The pool itself: llama.cpp binaries, models, workers, links."""
