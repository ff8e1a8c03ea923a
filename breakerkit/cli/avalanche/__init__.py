"""``breakerkit demo avalanche``: one dependency hangs, without and with isolation.

_plan    what hangs, when, and how many call      _shop     the service, its own process
_rounds  the clients, and what came of each call  _operator writes and removes the rule
_play    the whole play                           _report   figures and table
_picture the three endpoints over time
"""
