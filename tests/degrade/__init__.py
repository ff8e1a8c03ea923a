"""Tests of the degradation wing: fallback, degradable, rules."""
