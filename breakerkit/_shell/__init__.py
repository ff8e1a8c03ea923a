"""How a function is called, whatever guards it; the only room that knows wrapt.

_gate       what the shell needs of a policy
_shapes     which kind of callable it is
_runs       coroutines and generators, one run each
_deferred   work that a plain function returns to be run later
_functions  real functions: the hot path
_objects    all other callables
_blocks     ``with policy.guard()``
_calls      ``breaker.call(fn)``, ``breaker.apply(fn)``
_around     the same for any policy that puts a function around a function
_timed*     under a limit in time: sync code, async code, futures, blocks
_wrapped    what lies beneath decorators
_foreign    code one does not own
"""
