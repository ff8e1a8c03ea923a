"""The stale-if-error cache: the origin rests after each attempt, callers keep their last good value."""
