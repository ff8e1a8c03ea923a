"""The bulkhead: so many calls at a time, here or in a pool of its own, and a queue with an end."""
