"""``breakerkit demo failover``: one of three providers is killed and revived, without and with failover.

_plan    who dies, when, and how many call       _sites   the providers, processes each
_run     the clients, and what came of each call _play    the whole play
_report  figures and table                       _picture both clients over time
"""
