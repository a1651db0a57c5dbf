"""Seeding in virtual time: what a policy is worth, without waiting for a link."""
