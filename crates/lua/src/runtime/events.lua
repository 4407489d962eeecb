-- thread_run(): a script's own loop over events in place of the engine's, and what sysbench's C gives
-- to such loops. The engine begins and ends a transaction when the loop asks for the next event.
-- `restore` serves a new session, and gives the engine's next word.
local engine, random, session, restore = ...

local ask = engine.coroutines.ask
local codes, asks = engine.codes, engine.asks

local events = {}

-- Where a loop is: the engine has begun a transaction, the script has it, the script has ended it, and
-- there are no more of them.
local BEGUN, TAKEN, ENDED, OVER = 1, 2, 3, 4

-- Ends the transaction that the loop had, if it had one, and gives the engine's next word.
local function finish(self)
   local link = self.link
   if link.interrupted then
      return session.interruption(link)
   end
   local failure = link.failure
   if self.loop ~= ENDED and failure then
      -- the script has caught the error and gone on, without counting the event
      return ask(asks.REFUSED, true, failure.words)
   end
   session.settle(link)
   return ask(asks.DONE)
end

-- Whether there is another event; waits for its start.
function events.more()
   local self = random.client()
   local at = self.loop
   if at == nil then
      error("sb_more_events() is for thread_run()", 2)
   elseif at == OVER then
      return false
   elseif at ~= BEGUN then
      local code = finish(self)
      random.use(self.generator)
      while code == codes.CONNECTED do
         code = restore(self)
         random.use(self.generator)
      end
      if code ~= codes.BEGIN then
         self.loop, self.next = OVER, code
         return false
      end
      self.link.failure = nil
   end
   self.loop = TAKEN
   return true
end

function events.start() end

function events.stop()
   local self = random.client()
   if self.loop == TAKEN then
      self.loop = ENDED
   end
end

-- One event, again while it wants to be begun again; true when there are to be no more of them.
local function run_event(self, tid)
   local link = self.link
   while true do
      local ok, result = pcall(self.env.event, tid)
      if ok then
         events.stop()
         return result
      elseif link.interrupted then
         return false
      elseif type(result) ~= "table" or result.errcode ~= session.RESTART_EVENT then
         error(result, 0)
      end
      local hook = self.sysbench.hooks.before_restart_event
      if type(hook) == "function" then
         hook(result)
      end
      if link.failure then
         -- the engine rolls back, and begins it again
         return false
      end
   end
end

-- sysbench's own loop, which a script's own may call.
function events.thread_run(tid)
   local self = random.client()
   while events.more() do
      if run_event(self, tid) then
         return
      end
   end
end

-- The script's loop, as what serves one transaction of the engine's and all that follow.
function events.loop(self, thread_run)
   return function(tid)
      self.loop = BEGUN
      thread_run(tid)
      local stops_early = self.loop ~= OVER
      self.loop = OVER
      return stops_early
   end
end

return events
