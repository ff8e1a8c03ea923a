"""What the server does for each command: one Lua script each, atomic, by the server's own clock.

A key is one hash, so that all of it lives on one node of a cluster:

    v  the value, serialized
    m  when it was stored, when the refresh is due, when nobody wants it any more, its ticket;
       "stored" is 0 where only a refresh time is kept
    b  the attempts that run: last ticket drawn, up to which ticket they may not write, up to which
       what they write is due at once, which has the lease, until when, how many run, ticket of the
       first, until when they are waited for, owner of the one with the lease

Moments are microseconds since 1970, and so is a ticket: the moment at which it was
drawn, or one more than the largest of its key. So tickets grow although a hash is
forgotten. ``b`` is there while attempts run, and `LINGER` after the last lease for
those that are late; with ``m`` and ``b`` gone the hash is. If there is no hash, an
attempt that began longer than that ago may have been outdated by an eviction of
which nothing is left: it does not write.

What a full server (``maxmemory``, ``noeviction``) refuses is the value alone: a
script that has begun to write may go on, and that is used to end attempts there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from breakerkit.store import commands as told

if TYPE_CHECKING:
    from typing import Any

#: Seconds for which attempts are waited for after their lease has run out.
LINGER = 600


class Script:
    """A script and the digest by which the server knows it."""

    __slots__ = ("_known", "_whole", "digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self._known = _words(b"EVALSHA", self.digest.encode(), b"1")
        self._whole = _words(b"EVAL", text.encode(), b"1")

    def packed(self, key: bytes, args: tuple[bytes | int, ...], *, known: bool) -> bytes:
        """Return the command as it goes over the wire (RESP), for one key.

        Args:
            key: the key.
            args: its arguments.
            known: whether the server knows the script.
        """
        if not args and known:  # a read: most of all
            return b"*4\r\n%b$%d\r\n%b\r\n" % (self._known, len(key), key)
        words = [one if isinstance(one, bytes) else b"%d" % one for one in args]
        head = self._known if known else self._whole
        return b"*%d\r\n%b%b" % (len(words) + 4, head, _words(key, *words))


def _words(*words: bytes) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


# One text and not a list: half the time of parsing a reply goes into its parts.
_READ = """
local found = redis.pcall('HMGET', KEYS[1], 'm', 'v')
if found.err or not found[1] then return false end
local second, micro = '0', ARGV[1]
if not micro then
  local time = redis.call('TIME')
  second, micro = time[1], time[2]
end
return second .. ' ' .. micro .. ' ' .. found[1] .. ' ' .. (found[2] or '')
"""

_PRELUDE = """
local time = redis.call('TIME')
local now = tonumber(ARGV[1]) or time[1] * 1000000 + time[2]
local LINGER = %d000000
local MOST = 9e15  -- what a Lua number holds exactly
local key, m, b, absent

local function numbers(text, count)
  local found = {}
  for word in string.gmatch(text or '', '%%S+') do
    local number = string.match(word, '^%%d+$') and tonumber(word)
    if not number or number > MOST then return nil end
    found[#found + 1] = number
  end
  return #found == count and found or nil
end

local function newest()  -- a value; that an attempt failed is nothing newer
  return math.max(b.floor, m and m.stored > 0 and m.ticket or 0)
end

local function load(which)
  key, m, b = which, nil, nil
  local found = redis.pcall('HMGET', key, 'm', 'b')
  if found.err then  -- no hash: nothing of ours
    redis.call('DEL', key)
    found = {}
  end
  absent = not found[1] and not found[2]
  local n = numbers(found[1], 4)
  if n then m = {stored = n[1], refresh = n[2], keep = n[3], ticket = n[4]} end
  n = numbers(found[2], 9) or {0, 0, 0, 0, 0, 0, 0, 0, 0}
  b = {last = n[1], floor = n[2], due = n[3], holder = n[4], till = n[5], open = n[6],
       first = n[7], linger = n[8], owner = n[9]}
  if now >= b.linger then b.open = 0 end
  if m and now >= m.keep then
    b.floor = newest()
    m = nil
  end
end

local function save()
  local last = math.max(m and m.keep or 0, b.open > 0 and b.linger or 0)
  if last <= now then
    redis.call('DEL', key)
    return
  end
  redis.call('HDEL', key, (m and m.stored > 0) and '' or 'v', m and '' or 'm', b.open > 0 and '' or 'b')
  if m then
    redis.call('HSET', key, 'm', string.format('%%.0f %%.0f %%.0f %%.0f', m.stored, m.refresh, m.keep, m.ticket))
  end
  if b.open > 0 then
    redis.call('HSET', key, 'b', string.format('%%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f',
      b.last, b.floor, b.due, b.holder, b.till, b.open, b.first, b.linger, b.owner))
  end
  redis.call('PEXPIRE', key, string.format('%%.0f', math.ceil((last - now) / 1000)))
end

local function draw()
  b.last = math.max(now, b.last, b.floor, b.due, m and m.ticket or 0) + 1
  return b.last
end

local function forgotten(ticket)
  return absent and ticket > 0 and now - ticket > LINGER
end

local function finish(ticket)
  if b.open > 0 and ticket >= b.first then b.open = b.open - 1 end
  if b.holder == ticket then b.holder = 0 end
end

local function hold(ticket, value, due, keep)
  local done = redis.pcall('HSET', key, 'v', value)
  if type(done) == 'table' and done.err then
    if not string.find(done.err, 'OOM') then return done end
    save()
    return -1
  end
  m = {stored = now, refresh = now + due, keep = now + keep, ticket = ticket}
  save()
  return 1
end

local function act()
%s
end

local answer
for _, which in ipairs(KEYS) do
  load(which)
  answer = act()
end
return answer
"""

_BEGIN = """
  local owner = tonumber(ARGV[3])
  if b.holder > 0 and now < b.till and (owner == 0 or owner ~= b.owner) then return 0 end
  local ticket = draw()
  if b.open == 0 then b.first = ticket end
  b.open, b.holder, b.till, b.owner = b.open + 1, ticket, now + tonumber(ARGV[2]), owner
  b.linger = math.max(b.linger, b.till + LINGER)
  save()
  return ticket
"""

_WRITE = """
  local ticket = tonumber(ARGV[2])
  local outdated, late = ticket < newest() or forgotten(ticket), ticket < b.due
  finish(ticket)
  if outdated then
    save()
    return 0
  end
  return hold(ticket, ARGV[3], late and 0 or tonumber(ARGV[4]), tonumber(ARGV[5]))
"""

_POSTPONE = """
  local ticket, due = tonumber(ARGV[2]), tonumber(ARGV[3])
  local outdated = ticket < math.max(b.floor, b.due, m and m.ticket or 0) or forgotten(ticket)
  finish(ticket)
  if not outdated and m and m.stored > 0 then
    m.refresh = now + due
    if ARGV[4] == '1' then m.keep = math.max(m.keep, m.refresh) end
  elseif not outdated and ARGV[4] == '1' then
    m = {stored = 0, refresh = now + due, keep = now + due, ticket = ticket}
  end
  save()
"""

_RELEASE = """
  local ticket, owner = tonumber(ARGV[2]), tonumber(ARGV[3])
  if ticket == 0 and owner > 0 and owner == b.owner then ticket = b.holder end
  finish(ticket)
  save()
"""

_PUT = """
  local ticket = draw()
  b.floor, b.holder, m = ticket, 0, nil
  return hold(ticket, ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]))
"""

_INVALIDATE = """
  if b.open > 0 then b.due, b.holder = draw(), 0 end
  if m and m.stored == 0 then m = nil end
  if m then m.refresh = now end
  save()
"""

_EVICT = """
  b.floor, b.holder, m = draw(), 0, nil
  save()
"""


def _script(body: str) -> Script:
    return Script(_PRELUDE % (LINGER, body.strip("\n")))


READ = Script(_READ)

#: The script of each command that changes something.
CHANGES: dict[type[Any], Script] = {
    told.Begin: _script(_BEGIN),
    told.Write: _script(_WRITE),
    told.Postpone: _script(_POSTPONE),
    told.Release: _script(_RELEASE),
    told.Put: _script(_PUT),
    told.Invalidate: _script(_INVALIDATE),
    told.Evict: _script(_EVICT),
    told.InvalidateAll: _script(_INVALIDATE),
    told.EvictAll: _script(_EVICT),
}
