-- Has a loop of its own over events, around sysbench's (--whole=off) or in its place.

local function say(...)
   local words = { ... }
   for at = 1, select("#", ...) do
      words[at] = tostring(words[at])
   end
   print("probe: " .. table.concat(words, " "))
end

sysbench.cmdline.options = { whole = { "Whether the loop is the script's own", true } }

local calls, restarts, rounds = 0, 0, 0

function sysbench.hooks.before_restart_event(why)
   restarts = restarts + 1
   say("again", why.sql_state)
end

function thread_init()
   con = sysbench.sql.driver():connect()
   con:query("SET client_min_messages = error")
   con:query("DROP TABLE IF EXISTS loop_probe")
   con:query("CREATE TABLE loop_probe (id int PRIMARY KEY)")
   con:query("INSERT INTO loop_probe VALUES (1)")
end

function event()
   calls = calls + 1
   if calls == 2 then
      con:query("INSERT INTO loop_probe VALUES (1)")
   elseif calls == 3 then
      error({ errcode = sysbench.error.RESTART_EVENT, sql_state = "of the script" })
   end
   con:query("SELECT 1")
end

local standard = thread_run

function thread_run(...)
   local tid = ...
   say("loop", select("#", ...), tid)
   if not sysbench.opt.whole then
      standard(tid)
   else
      while ffi.C.sb_more_events(tid) do
         rounds = rounds + 1
         ffi.C.sb_event_start(tid)
         repeat
            local ok = pcall(event, tid)
         until ok
         ffi.C.sb_event_stop(tid)
      end
   end
   say("end", rounds, calls, restarts)
   con:query("SELECT 'more'")
end

function thread_done()
   say("done", calls)
   con:query("SELECT 'last'")
end
