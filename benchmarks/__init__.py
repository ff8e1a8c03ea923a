"""What a guarded call costs, measured beside the unguarded one and beside the peers.

``python -m benchmarks`` from a checkout with the extra ``bench``. Which module
knows what, each only of the ones above it:

    harness.py    rounds, order, calibration, medians and quartiles; no breaker at all
    shapes.py     what is called in each group, and the loop that times it
    subjects.py   the references (bare, closure, wrapt) and breakerkit, group by group
    peers.py      the other libraries, each the way its own README uses it
    growth.py     windows, keys and threads that grow; bytes; import time
    stores.py     cache hits in a store that grows, and in a Valkey
    targets.py    what was promised, and whether this run kept it
    report.py     the tables for a terminal and for the docs
    chart.py      the picture for the docs
    __main__.py   the command line
"""
