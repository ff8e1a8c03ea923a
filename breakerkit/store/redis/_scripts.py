"""What the server does for each command: one Lua script each, atomic, by the server's own clock.

A key is one hash, so that all of it lives on one node of a cluster:

    v  the value, serialized
    m  when it was stored, when the refresh is due, when nobody wants it any more, its ticket,
       since when the refresh is due then, and whether that comes of an attempt that brought
       nothing to store; "stored" is 0 where only a refresh time is kept
    b  the attempts that run: last ticket drawn, up to which ticket they may not write, up to which
       what they write is due at once, which has the lease, until when, how many run, ticket of the
       first, until when they are waited for, owner of the one with the lease, since when it has that

Moments are microseconds since 1970, and so is a ticket: the moment at which it was
drawn, or one more than the largest of its key. So tickets grow although a hash is
forgotten. ``b`` is there while attempts run, and `LINGER` after the last lease for
those that are late; with ``m`` and ``b`` gone the hash is. If there is no hash, an
attempt that began longer than that ago may have been outdated by an eviction of
which nothing is left: it does not write.

A server's clock may be set back, or another server take over whose clock is behind.
So what holds for a time says since when: what has begun in the future holds nobody.

What a full server (``maxmemory``, ``noeviction``) refuses is the value alone: a
script that has begun to write may go on, and that is used to end attempts there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakerkit.store import commands as told
from breakerkit.store.redis._script import Script

if TYPE_CHECKING:
    from typing import Any

#: Seconds for which attempts are waited for after their lease has run out.
LINGER = 600
#: Microseconds that something may seem to come from the future: clocks of servers are set.
MOST_AHEAD = 1_000_000


# One text and not a list: half the time of parsing a reply goes into its parts. It begins with
# the key: a reply that is about another one is none, whatever has become of a connection.
_READ = """
local found = redis.pcall('HMGET', KEYS[1], 'm', 'v')
if found.err or not found[1] then return false end
local second, micro = '0', ARGV[1]
if not micro then
  local time = redis.call('TIME')
  second, micro = time[1], time[2]
end
return KEYS[1] .. ' ' .. second .. ' ' .. micro .. ' ' .. found[1] .. ' ' .. (found[2] or '')
"""

_PRELUDE = """
local time = redis.call('TIME')
local now = tonumber(ARGV[1]) or time[1] * 1000000 + time[2]
local LINGER = %d000000
local AHEAD = %d
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
  local n = numbers(found[1], 6)
  if n then
    m = {stored = n[1], refresh = n[2], keep = n[3], ticket = n[4], since = n[5], rests = n[6]}
  end
  n = numbers(found[2], 10) or {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  b = {last = n[1], floor = n[2], due = n[3], holder = n[4], till = n[5], open = n[6],
       first = n[7], linger = n[8], owner = n[9], since = n[10]}
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
    redis.call('HSET', key, 'm', string.format('%%.0f %%.0f %%.0f %%.0f %%.0f %%.0f',
      m.stored, m.refresh, m.keep, m.ticket, m.since, m.rests))
  end
  if b.open > 0 then
    redis.call('HSET', key, 'b', string.format('%%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f %%.0f',
      b.last, b.floor, b.due, b.holder, b.till, b.open, b.first, b.linger, b.owner, b.since))
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

local function rest(due)
  m.refresh, m.since, m.rests = now + due, now, 1
end

local function hold(ticket, value, due, keep)
  local done = redis.pcall('HSET', key, 'v', value)
  if type(done) == 'table' and done.err then
    if not string.find(done.err, 'OOM') then return done end
    if m and m.stored > 0 then rest(due) end  -- the origin was asked
    save()
    return -1
  end
  m = {stored = now, refresh = now + due, keep = now + keep, ticket = ticket, since = now, rests = 0}
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
  if b.holder > 0 and now < b.till and b.since <= now + AHEAD and (owner == 0 or owner ~= b.owner) then return 0 end
  local ticket = draw()
  if b.open == 0 then b.first = ticket end
  b.open, b.holder, b.till, b.owner, b.since = b.open + 1, ticket, now + tonumber(ARGV[2]), owner, now
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
    rest(due)
    if ARGV[4] == '1' then m.keep = math.max(m.keep, m.refresh) end
  elseif not outdated and ARGV[4] == '1' then
    m = {stored = 0, refresh = now, keep = now + due, ticket = ticket, since = now, rests = 1}
    rest(due)
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
  if m then m.refresh, m.since = now, now end
  save()
"""

_EVICT = """
  b.floor, b.holder, m = draw(), 0, nil
  save()
"""


def _script(body: str) -> Script:
    return Script(_PRELUDE % (LINGER, MOST_AHEAD, body.strip("\n")))


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
