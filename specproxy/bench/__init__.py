"""Measure before you believe: arms, workloads, reports."""
