"""What runs inside Redis. A script is atomic: nothing happens between its commands.

KEYS[1] is the prefix of the index in all of them. They are sent whole: Redis compiles a text once, and a restarted
server needs no special care.
"""

from __future__ import annotations

_COMMON = r"""
local P = KEYS[1]
local call = redis.call

local function text(s) return #s .. ':' .. s .. ':' end
local function number(n) return string.format('%.0f', n) end

local function definitions()
  local found = {}
  local stored = call('HGETALL', P .. 'composites')
  for at = 2, #stored, 2 do found[#found + 1] = cmsgpack.unpack(stored[at]) end
  return found
end

local function composite_set(definition, labels)
  local name = P .. 'composite:' .. number(definition.number) .. ':'
  for _, key in ipairs(definition.keys) do
    local value = labels[key]
    if value == nil then return nil end
    name = name .. text(value)
  end
  return name
end

-- The sorted sets that hold an entry with these labels.
local function sets_of(labels, composites)
  local sets = {}
  for key, value in pairs(labels) do sets[#sets + 1] = P .. 'label:' .. text(key) .. text(value) end
  for _, definition in ipairs(composites) do
    local set = composite_set(definition, labels)
    if set then sets[#sets + 1] = set end
  end
  return sets
end

local function add(set, timestamp, ref)
  call('ZADD', set, timestamp, ref)
  call('SADD', P .. 'sets', set)
end

local function remove(ref, composites)
  local stored = call('HGET', P .. 'entries', ref)
  if not stored then return 0 end
  local entry = cmsgpack.unpack(stored)
  for _, set in ipairs(sets_of(entry[2], composites)) do
    call('ZREM', set, ref)
    if call('EXISTS', set) == 0 then call('SREM', P .. 'sets', set) end
  end
  call('ZREM', P .. 'time', ref)
  call('ZREM', P .. 'refs', ref)
  call('ZREM', P .. 'expires', ref)
  call('HDEL', P .. 'entries', ref)
  return 1
end

-- Byte by byte: Lua's own comparison of strings depends on the server's locale.
local function is_less(left, right)
  for at = 1, math.min(#left, #right) do
    local l, r = left:byte(at), right:byte(at)
    if l ~= r then return l < r end
  end
  return #left < #right
end

-- How many members stand before the position (timestamp, ref), which need not exist.
local function rank(set, timestamp, ref)
  local score = call('ZSCORE', set, ref)
  if score and tonumber(score) == tonumber(timestamp) then return call('ZRANK', set, ref), 1 end
  local low = call('ZCOUNT', set, '-inf', '(' .. timestamp)
  local high = call('ZCOUNT', set, '-inf', timestamp)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_less(call('ZRANGE', set, middle, middle)[1], ref) then low = middle + 1 else high = middle end
  end
  return low, 0
end
"""

PUT = (
    _COMMON
    + r"""
local composites = definitions()
for at = 1, #ARGV, 2 do
  local ref, stored = ARGV[at], ARGV[at + 1]
  remove(ref, composites)
  local entry = cmsgpack.unpack(stored)
  local timestamp = number(entry[1])
  call('HSET', P .. 'entries', ref, stored)
  call('ZADD', P .. 'time', timestamp, ref)
  call('ZADD', P .. 'refs', 0, ref)
  if entry[3] then call('ZADD', P .. 'expires', number(entry[3]), ref) end
  for _, set in ipairs(sets_of(entry[2], composites)) do add(set, timestamp, ref) end
end
"""
)

DELETE = (
    _COMMON
    + r"""
local composites, removed = definitions(), 0
for _, ref in ipairs(ARGV) do removed = removed + remove(ref, composites) end
return removed
"""
)

DELETE_EXPIRED = (
    _COMMON
    + r"""
local due = call('ZRANGE', P .. 'expires', '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
local composites = definitions()
for _, ref in ipairs(due) do remove(ref, composites) end
return due
"""
)

PAGE = (
    _COMMON
    + r"""
-- ARGV: set, least score, end of scores, direction, timestamp and ref of the cursor (or ''), limit
local set, is_down, limit = ARGV[1], ARGV[4] == 'down', tonumber(ARGV[7])
local first = call('ZCOUNT', set, '-inf', '(' .. ARGV[2])
local past = call('ZCOUNT', set, '-inf', '(' .. ARGV[3])
if ARGV[5] ~= '' then
  local before, here = rank(set, ARGV[5], ARGV[6])
  if is_down then past = math.min(past, before) else first = math.max(first, before + here) end
end
if is_down then first = math.max(first, past - limit) else past = math.min(past, first + limit) end
if first >= past then return '' end
local found = call('ZRANGE', set, first, past - 1, 'WITHSCORES')
local refs = {}
for at = 1, #found, 2 do refs[#refs + 1] = found[at] end
local entries = call('HMGET', P .. 'entries', unpack(refs))
-- One msgpack list of [ref, entry or nil, …, score of the last]: a client reads it far quicker than many replies.
local from, to, step = 1, #refs, 1
if is_down then from, to, step = to, from, -1 end
local parts = {struct.pack('>BI4', 0xdd, 2 * #refs + 1)}
for at = from, to, step do
  parts[#parts + 1] = cmsgpack.pack(refs[at])
  parts[#parts + 1] = entries[at] or '\192'
end
parts[#parts + 1] = cmsgpack.pack(tonumber(found[2 * to]))
return table.concat(parts)
"""
)

BUILD = (
    _COMMON
    + r"""
-- ARGV: name of the composite, limit
local stored = call('HGET', P .. 'composites', ARGV[1])
if not stored then return -1 end
local definition = cmsgpack.unpack(stored)
if definition.state == 'ready' then return 0 end
local before, here = rank(P .. 'time', number(definition.timestamp), definition.ref)
local refs = call('ZRANGE', P .. 'time', before + here, before + here + ARGV[2] - 1, 'WITHSCORES')
for at = 1, #refs, 2 do
  local labels = cmsgpack.unpack(call('HGET', P .. 'entries', refs[at]))[2]
  local set = composite_set(definition, labels)
  if set then add(set, refs[at + 1], refs[at]) end
end
if #refs == 0 then
  definition.state = 'ready'
else
  definition.timestamp, definition.ref = tonumber(refs[#refs]), refs[#refs - 1]
end
call('HSET', P .. 'composites', ARGV[1], cmsgpack.pack(definition))
return #refs / 2
"""
)

SWEEP = (
    _COMMON
    + r"""
-- Remove the sets whose name starts with ARGV[1].
local sets = call('SMEMBERS', P .. 'sets')
for _, set in ipairs(sets) do
  if set:sub(1, #ARGV[1]) == ARGV[1] then
    call('UNLINK', set)
    call('SREM', P .. 'sets', set)
  end
end
"""
)
