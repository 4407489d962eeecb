-- One client of a script: its globals, its functions, the loop that the engine drives.
local engine, random, session = ...

local coroutines = engine.coroutines
local yield = coroutines.yield
local concat = table.concat
local codes, asks, parts = engine.codes, engine.asks, engine.parts
local searchpath = engine.searchpath

local client = {}

-- Where a script's globals come from; each client has a copy.
local shared = {}
for name, value in pairs(_G) do
   shared[name] = value
end
-- scripts have another ffi, made when it is wanted
shared._G, shared.ffi = nil, nil
if engine.spares_stdout then
   -- standard output is for events
   io.output(io.stderr)
   shared.print = function(...)
      local words = { ... }
      for at = 1, select("#", ...) do
         words[at] = tostring(words[at])
      end
      io.stderr:write(concat(words, "\t"), "\n")
   end
end

local out = engine.spares_stdout and io.stderr or io.stdout
local function write(text)
   out:write(text)
end

local reports = parts.reports(engine, shared)
local histogram = parts.histogram(write)
local cmdline = parts.cmdline(engine, random, write)
local legacy = parts.legacy(random, session)

-- A module that the script's own package.path leads to.
local function module_by_path(name)
   local path = searchpath(name, package.path)
   return path and engine.file(path)
end

-- Made when the first script wants it.
local events, foreign

local function ffi_of_sysbench()
   foreign = foreign or parts.foreign(engine, random, session, events, histogram)
   return foreign
end

-- Runs a file; unlike Lua's own it may send statements.
shared.dofile = function(path)
   local chunk, why = loadfile(path)
   if chunk == nil then
      error(why, 2)
   end
   return chunk()
end

-- Loads a module as a part of the script: it has the script's globals. Modules that no file is found
-- for are LuaJIT's own.
local function require_for(env)
   local loaded = {}
   return function(name)
      local value = loaded[name]
      if value ~= nil then
         return value
      end
      if name == "ffi" then
         return ffi_of_sysbench()
      end
      local chunk = engine.module(name) or module_by_path(name)
      if chunk == nil then
         return require(name)
      end
      loaded[name] = true
      value = setfenv(chunk, env)(name)
      if value == nil then
         value = loaded[name]
      end
      loaded[name] = value
      return value
   end
end

-- Globals that few scripts use are one table for all clients, which their own stand before. A script
-- that declares no options has them all as globals, as in sysbench 1.0.
local inherited = setmetatable(legacy.globals, {
   __index = function(_, name)
      if name == "ffi" then
         return ffi_of_sysbench()
      end
      if engine.exports_options then
         return engine.opt[name]
      end
   end,
})
local of_globals = { __index = inherited }
local of_cmdline = { __index = cmdline }
local error_api = { NONE = 0, RESTART_EVENT = session.RESTART_EVENT }

local function globals(tid, command, sysbench)
   local env = {}
   for name, value in pairs(shared) do
      env[name] = value
   end
   env._G = env
   env.require = require_for(env)
   env.sysbench = sysbench
   env.thread_id = tid
   sysbench.tid = tid
   -- a script may change its options, as in sysbench, where each thread has its own
   sysbench.opt = {}
   for name, value in pairs(engine.opt) do
      sysbench.opt[name] = value
   end
   sysbench.rand = random.api
   sysbench.histogram = histogram
   sysbench.db = legacy.db
   sysbench.hooks = {}
   for name, report in pairs(reports.own) do
      sysbench[name] = report
   end
   sysbench.error = error_api
   sysbench.version = "1.0.20"
   sysbench.version_string = "sysbench 1.0.20 (pgdrive)"
   sysbench.cmdline = setmetatable({ command = command }, of_cmdline)
   return setmetatable(env, of_globals)
end

-- A script's globals and its connection, before its text has run.
function client.new(tid, seed, command)
   local sysbench = {}
   local generator = random.generator(seed)
   local link = { current = 0, all = {} }
   local con = session.connection(sysbench, generator, link, 0)
   local env = globals(tid, command, sysbench)
   sysbench.sql = session.sql(con)
   local self = { tid = tid, env = env, sysbench = sysbench, con = con, link = link, generator = generator }
   random.own(generator, self)
   return self
end

-- What is loaded here (dofile, loadfile, loadstring) has the script's globals.
local function adopt(self)
   setfenv(0, self.env)
end

-- Runs the text of the script in its globals.
function client.load(self)
   random.use(self.generator)
   adopt(self)
   setfenv(engine.script(), self.env)()
end

-- Where an error came from, without what is not the script's.
local function with_trace(message)
   local failure = random.client().link.failure
   if failure and failure.raised == message then
      return failure
   elseif type(message) == "table" then
      return message
   end
   local text = tostring(message)
   if type(message) == "userdata" then
      -- an error of the engine's own functions, with frames that are not the script's
      text = text:gsub("\nstack traceback:.*", ""):gsub("^runtime error: ", "")
   end
   return { words = text .. engine.where() }
end

local function words_of(reason)
   if reason == "not enough memory" then
      return engine.memory_words
   end
   return type(reason) == "table" and reason.words or tostring(reason)
end

-- Calls a function for the engine itself; words when it fails.
function client.attempt(work, self)
   random.use(self.generator)
   adopt(self)
   local ok, reason = xpcall(work, with_trace, self)
   if not ok then
      return words_of(reason)
   end
end

local function is_restart(raised)
   return type(raised) == "table" and raised.errcode == session.RESTART_EVENT
end

-- What follows a call that has failed: the engine's next word. An event that the script itself wants
-- to begin again begins anew without one.
local function after_failure(self, reason, is_event)
   local link = self.link
   if link.interrupted then
      return session.interruption(link)
   end
   local failure = link.failure
   local raised = reason == failure and failure and failure.raised or reason
   if is_restart(raised) then
      local hook = self.sysbench.hooks.before_restart_event
      if type(hook) == "function" then
         local ok, why = xpcall(hook, with_trace, raised)
         if not ok then
            return yield(asks.ABORT, words_of(why))
         end
      end
      if failure then
         return yield(asks.REFUSED, true, failure.words)
      elseif is_event then
         return codes.BEGIN
      end
      return yield(asks.ABORT, "the script begins an event again, outside of event()" .. engine.where())
   elseif reason == failure then
      return yield(asks.REFUSED, false, failure.words)
   end
   return yield(asks.ABORT, words_of(reason))
end

-- Serves a session in the midst of the load.
local function restore(self)
   local ok, reason = xpcall(session.restore, with_trace, self.link)
   return ok and yield(asks.DONE) or after_failure(self, reason)
end

events = parts.events(engine, random, session, restore)
inherited.thread_run = events.thread_run
inherited.test = engine.script_path

-- Calls a function of the script that stands outside of transactions, if there is one.
local function call(self, name, ...)
   random.use(self.generator)
   local routine = self.env[name]
   local ok, reason = true, nil
   if type(routine) == "function" then
      ok, reason = xpcall(routine, with_trace, ...)
   end
   if ok then
      session.settle(self.link)
      self.is_ready = true
      return yield(asks.DONE)
   end
   return after_failure(self, reason)
end

-- Serves transactions of `work` until the session ends; the first word is that there is one.
local function serve(self, code, work)
   local tid, link = self.tid, self.link
   while true do
      random.use(self.generator)
      if code == codes.BEGIN then
         link.failure = nil
         local ok, result = xpcall(work, with_trace, tid)
         if ok then
            session.settle(link)
         end
         if not ok or link.interrupted then
            -- a script may have caught what says that its connection is lost
            code = after_failure(self, result, true)
         elseif self.next then
            code, self.next = self.next, nil
         elseif result then
            code = yield(asks.STOP)
         else
            code = yield(asks.DONE)
         end
      elseif code == codes.CONNECTED then
         code = restore(self)
      else
         code = call(self, "thread_done", tid)
      end
   end
end

-- Begins a client's coroutine; false and the engine's next word when the script fails.
local function begin(self)
   coroutines.adopt()
   self.is_served = true
   local ok, reason = xpcall(client.load, with_trace, self)
   if ok then
      return true
   end
   return false, after_failure(self, reason)
end

-- The coroutine of a client in a run.
function client.run(self)
   local ok, word = begin(self)
   if not ok then
      return word
   end
   local code
   repeat
      -- again, when the connection was lost before its end
      self.con.is_open, self.con.was_used = false, false
      code = call(self, "thread_init", self.tid)
   until self.is_ready
   local env = self.env
   local own_loop = rawget(env, "thread_run")
   serve(self, code, own_loop and events.loop(self, own_loop) or env.event)
end

-- The coroutine of a client that carries out a command, once.
function client.command(self)
   local ok, word = begin(self)
   if not ok then
      return word
   end
   local code = yield(asks.DONE)
   random.use(self.generator)
   local name = self.sysbench.cmdline.command
   local work = client.find_command(self, name)
   self.env.thread_done = nil
   serve(self, code, function()
      if work(name) == false then
         error({ words = "command \"" .. name .. "\" failed: its function gave false" }, 0)
      end
      return true
   end)
end

-- Whether the script makes reports itself.
function client.has_hook(self, name)
   return type(self.sysbench.hooks[name]) == "function"
end

-- What is called with the client for one report.
function client.reporter(name, stat)
   return function(self)
      reports.call(self.sysbench, name, stat)
   end
end

-- No report comes any more.
function client.finish_reports()
   reports.finish()
end

-- Functions of the script that are commands by their names.
local COMMANDS = { prepare = true, cleanup = true, prewarm = true }

-- The function of a command, and whether all clients carry it out. What the script declares comes
-- first; it is called as sysbench calls it, by functions that a script may replace.
function client.find_command(self, name)
   local cmdline_of_script = self.sysbench.cmdline
   if cmdline_of_script.command_defined(name) then
      return cmdline_of_script.call_command, cmdline_of_script.command_parallel(name)
   end
   local routine = COMMANDS[name] and self.env[name]
   if type(routine) ~= "function" then
      return nil, false
   end
   return function()
      routine()
   end, false
end

-- Reads what options the script declares.
function client.read_options(self)
   if not self.sysbench.cmdline.read_cmdline_options() then
      error("sysbench.cmdline.read_cmdline_options() gave false", 0)
   end
end

return client
