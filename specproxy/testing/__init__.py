"""Scripted target and drafter: real protocols over a toy vocabulary, exact to decide."""
