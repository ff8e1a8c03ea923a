"""The circuit breaker: config -> window -> machine -> guard, each readable alone."""
