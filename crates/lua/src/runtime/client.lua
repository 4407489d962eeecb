-- One client of a script: its globals, its functions, the loop that the engine drives.
local engine, random, session, load_reports = ...

local yield = coroutine.yield
local concat = table.concat
local codes, asks = engine.codes, engine.asks

local client = {}

-- Where a script's globals come from; each client has a copy.
local shared = {}
for name, value in pairs(_G) do
   shared[name] = value
end
shared._G = nil
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

local reports = load_reports(engine, shared)

-- Names of sysbench 0.5, which 1.0 still has.
local api = random.api
shared.sb_rand = api.default
shared.sb_rand_uniform = api.uniform
shared.sb_rand_gaussian = api.gaussian
shared.sb_rand_special = api.special
shared.sb_rand_pareto = api.pareto
shared.sb_rand_zipfian = api.zipfian
shared.sb_rand_uniq = api.unique
shared.sb_rand_str = api.string

local options_api = { BOOL = 1, INT = 2, DOUBLE = 3, STRING = 4, LIST = 5, SIZE = 6, FILE = 7 }

-- A module that the script's own package.path leads to.
local function module_by_path(name)
   local path = package.searchpath(name, package.path)
   return path and engine.file(path)
end

-- Made when the first script wants it.
local foreign

local function ffi_of_sysbench()
   foreign = foreign or engine.foreign(engine)
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
   sysbench.opt = engine.opt
   sysbench.rand = api
   sysbench.hooks = {}
   reports.add(sysbench)
   sysbench.error = { NONE = 0, RESTART_EVENT = session.RESTART_EVENT }
   sysbench.option = options_api
   sysbench.version = "1.0.20"
   sysbench.version_string = "sysbench 1.0.20 (pgdrive)"
   sysbench.cmdline = {
      command = command,
      script_path = engine.script_path,
      argv = engine.argv,
      PARALLEL_COMMAND = 1,
      options = {},
      commands = {},
   }
   return env
end

-- A script's globals and its connection, before its text has run.
function client.new(tid, seed, command)
   local sysbench = {}
   local generator = random.generator(seed)
   local link = { current = 0, all = {} }
   local con = session.connection(sysbench, generator, link, 0)
   local env = globals(tid, command, sysbench)
   sysbench.sql = session.sql(con)
   return { tid = tid, env = env, sysbench = sysbench, con = con, link = link, generator = generator }
end

-- Functions of scripts for sysbench 0.5, where the connection is a thread's.
local function add_old_sql(self)
   local env, con = self.env, self.con
   env.db_connect = function()
      return self.sysbench.sql.driver():connect()
   end
   env.db_disconnect = function()
      con:disconnect()
   end
   env.db_query = function(query)
      return con:query(query)
   end
   env.db_bulk_insert_init = function(query)
      return con:bulk_insert_init(query)
   end
   env.db_bulk_insert_next = function(row)
      return con:bulk_insert_next(row)
   end
   env.db_bulk_insert_done = function()
      return con:bulk_insert_done()
   end
end

-- What is loaded here (dofile, loadfile, loadstring) has the script's globals.
local function adopt(self)
   setfenv(0, self.env)
end

-- Runs the text of the script in its globals.
function client.load(self)
   random.use(self.generator)
   self.link.thread = coroutine.running()
   add_old_sql(self)
   adopt(self)
   setfenv(engine.script(), self.env)()
end

-- Where an error came from, without what is not the script's.
local function with_trace(message)
   if type(message) == "table" then
      return message
   end
   local text = tostring(message)
   if type(message) == "userdata" then
      -- an error of the engine's own functions, with frames that are not the script's
      text = text:gsub("\nstack traceback:.*", ""):gsub("^runtime error: ", "")
   end
   return { message = text, where = engine.where() }
end

local function words_of(reason)
   if session.is_error(reason) then
      return session.in_words(reason) .. (reason.where or "")
   end
   if type(reason) == "table" and reason.message then
      return reason.message .. (reason.where or "")
   end
   return tostring(reason)
end

-- Calls a function for the engine itself; words when it fails.
function client.attempt(work, self)
   adopt(self)
   local ok, reason = xpcall(work, with_trace, self)
   if not ok then
      return words_of(reason)
   end
end

-- What follows a call that has failed: the engine's next word.
local function after_failure(self, reason)
   local interrupted = self.link.interrupted
   if interrupted then
      self.link.interrupted = nil
      return interrupted
   end
   if type(reason) == "table" and reason.errcode == session.RESTART_EVENT then
      local hook = self.sysbench.hooks.before_restart_event
      if type(hook) == "function" then
         local ok, why = xpcall(hook, with_trace, reason)
         if not ok then
            return yield(asks.ABORT, words_of(why))
         end
      end
      return yield(asks.REFUSED, true, words_of(reason))
   end
   if session.is_error(reason) then
      return yield(asks.REFUSED, false, words_of(reason))
   end
   return yield(asks.ABORT, words_of(reason))
end

-- Calls a function of the script that stands outside of transactions, if there is one.
local function call(self, name, ...)
   local routine = self.env[name]
   local ok, reason = true, nil
   if type(routine) == "function" then
      ok, reason = xpcall(routine, with_trace, ...)
   end
   if ok then
      self.is_ready = true
      return yield(asks.DONE)
   end
   return after_failure(self, reason)
end

-- Serves transactions of `work` until the session ends; the first word is that there is one.
local function serve(self, code, work)
   local tid = self.tid
   while true do
      random.use(self.generator)
      if code == codes.BEGIN then
         local ok, result = xpcall(work, with_trace, tid)
         if not ok then
            code = after_failure(self, result)
         elseif result then
            code = yield(asks.STOP)
         else
            code = yield(asks.DONE)
         end
      elseif code == codes.CONNECTED then
         local ok, reason = xpcall(session.restore, with_trace, self.link)
         code = ok and yield(asks.DONE) or after_failure(self, reason)
      else
         code = call(self, "thread_done", tid)
      end
   end
end

-- The coroutine of a client in a run.
function client.run(self)
   local ok, reason = xpcall(client.load, with_trace, self)
   if not ok then
      return after_failure(self, reason)
   end
   local code
   repeat
      -- again, when the connection was lost before its end
      self.con.is_open, self.con.was_used = false, false
      code = call(self, "thread_init", self.tid)
   until self.is_ready
   serve(self, code, self.env.event)
end

-- The coroutine of a client that carries out a command, once.
function client.command(self)
   local ok, reason = xpcall(client.load, with_trace, self)
   if not ok then
      return after_failure(self, reason)
   end
   local code = yield(asks.DONE)
   local work = client.find_command(self, self.sysbench.cmdline.command)
   self.env.thread_done = nil
   serve(self, code, function()
      work(self.tid)
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

-- The function of a command, and whether all clients carry it out.
function client.find_command(self, name)
   local entry = self.sysbench.cmdline.commands[name]
   if type(entry) == "table" then
      return entry[1], entry[2] == self.sysbench.cmdline.PARALLEL_COMMAND
   end
   local routine = self.env[name]
   return type(routine) == "function" and routine or nil, false
end

return client
