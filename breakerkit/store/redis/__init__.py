"""A store in Redis or Valkey, shared by the processes of a fleet; needs the extra ``breakerkit[redis]``."""

from breakerkit.store.redis._store import RedisStore

__all__ = ["RedisStore"]
