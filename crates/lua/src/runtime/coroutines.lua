-- Coroutines that a script makes. In sysbench a statement may be sent anywhere; here only the client's own
-- coroutine speaks to the engine, so what others ask passes through those that resume them.

local resume, yield, running, create = coroutine.resume, coroutine.yield, coroutine.running, coroutine.create

-- Lua's own, for the runtime: scripts get others.
local coroutines = { yield = yield }

-- The coroutines of clients.
local clients = setmetatable({}, { __mode = "k" })
-- The first value of what is for the engine.
local FOR_ENGINE = {}

-- Makes the coroutine that runs a client's.
function coroutines.adopt()
   clients[running()] = true
end

-- Asks the engine, and gives its answer.
local function ask(...)
   if clients[running()] then
      return yield(...)
   end
   return yield(FOR_ENGINE, ...)
end

coroutines.ask = ask

local function relay(thread, is_fine, first, ...)
   if is_fine and first == FOR_ENGINE then
      return relay(thread, resume(thread, ask(...)))
   end
   return is_fine, first, ...
end

function coroutine.resume(thread, ...)
   return relay(thread, resume(thread, ...))
end

local function results(is_fine, ...)
   if not is_fine then
      error((...), 0)
   end
   return ...
end

function coroutine.wrap(body)
   local thread = create(body)
   return function(...)
      return results(relay(thread, resume(thread, ...)))
   end
end

-- Scripts see the client's coroutine as the main one.
function coroutine.yield(...)
   if clients[running()] then
      error("attempt to yield from outside a coroutine", 2)
   end
   return yield(...)
end

function coroutine.running()
   local thread = running()
   return not clients[thread] and thread or nil
end

return coroutines
