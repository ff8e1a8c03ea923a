"""``breakerkit demo stale``: a price service dies, then the store of its cache does, without and with the cache.

_plan    what happens when, and how many call    _prices  the service, a process of its own
_reader  who asks it, processes of their own     _valkey  the store they share, and its end
_tied    ends a program when its parent ends     _run     the callers, and what each got
_report  figures, table and sentences            _picture what they got over time
_play    the whole play
"""
