"""Several providers of one service: which one a call is given, what happens when it fails; knows no breaker."""
