"""The ways to speed a target up; each object is one life of the target, and ends with it."""
