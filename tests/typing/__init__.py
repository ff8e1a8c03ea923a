"""Tests of types: read by mypy --strict and pyright, run by pytest."""
