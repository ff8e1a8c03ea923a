"""The tests; a package, so that the helpers in it can be imported by name."""
