"""The bulkhead."""
