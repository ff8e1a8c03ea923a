"""Tests of the wing ``providers`` and of the policy that stands on it."""
