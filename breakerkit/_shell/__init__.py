"""How a function is called, whatever guards it; the only room that knows wrapt.

_gate       what the shell needs of a policy
_shapes     which kind of callable it is
_runs       coroutines and generators, one run each
_deferred   work that a plain function returns to be run later
_functions  real functions: the hot path
_objects    all other callables
_blocks     ``with breaker.guard()``
_calls      ``breaker.call(fn)``, ``breaker.apply(fn)``
_foreign    code one does not own
"""
