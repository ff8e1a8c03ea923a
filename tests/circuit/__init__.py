"""Tests of the circuit breaker itself, part by part and against a reference model."""
