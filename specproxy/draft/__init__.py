"""The local draft model: what a drafter is, and the one that runs on libllama."""
