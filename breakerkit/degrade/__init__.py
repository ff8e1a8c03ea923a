"""The degradation wing: what a caller gets in place of a call's own end, and who said so."""
