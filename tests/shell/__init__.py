"""Tests of how functions are called."""
