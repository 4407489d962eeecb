-- What statements give, and what a script may catch: one case by its name in each run of two events.

sysbench.cmdline.options = { case = { "Name of the case", "" } }

local calls = 0

local function say(...)
   local words = { ... }
   for at = 1, select("#", ...) do
      words[at] = tostring(words[at])
   end
   print("probe: " .. table.concat(words, " "))
end

-- As a script sees a result: whether it is one, what it is in a condition, and what it prints as.
local function result(rs)
   say(rs == nil, not not rs, rs, rs ~= nil and rs.nrows, rs ~= nil and rs.nfields)
end

local function refused()
   con:query("SELECT nowhere")
end

local function prepared(text)
   local statement = con:prepare(text)
   local param = statement:bind_create(sysbench.sql.type.INT)
   statement:bind_param(param)
   return statement, param
end

function thread_init()
   con = sysbench.sql.driver():connect()
   result(con:query("CREATE TEMP TABLE t (a int PRIMARY KEY)"))
   ffi.cdef[[int usleep(unsigned us); int poll(void *files, unsigned long count, int ms);]]
end

local cases = {}

function cases.results()
   for _, text in ipairs({ "INSERT INTO t VALUES (1), (2)", "INSERT INTO t VALUES (3) RETURNING a", "UPDATE t SET a = a",
      "SELECT * FROM t", "SELECT * FROM t WHERE a = 99", "BEGIN", "COMMIT", "SHOW port", "EXPLAIN SELECT 1", "SELECT 1; SELECT 2",
      "DELETE FROM t WHERE a = 99", "DELETE FROM t", "DO $$BEGIN END$$", "SET work_mem = '1MB'" }) do
      result(assert(con:query(text)))
   end
end

function cases.statements()
   local insert, key = prepared("INSERT INTO t VALUES (?)")
   key:set(10 + calls)
   result(assert(insert:execute()))
   result(assert(con:prepare("UPDATE t SET a = a"):execute()))
   result(assert(con:prepare("SELECT a FROM t WHERE a < 0"):execute()))
   say(insert:close())
end

function cases.others()
   say((con:bulk_insert_init("INSERT INTO t VALUES")), (con:bulk_insert_next("(" .. 50 + calls .. ")")))
   say(con:query_row("SELECT 1 WHERE false"))
   say(con:query_row("DELETE FROM t WHERE a = -1"))
   say(select("#", con:query_row("SELECT 1, 2, NULL")), sysbench.opt.nothing)
end

function cases.closed()
   say(con:disconnect(), (pcall(con.query, con, "SELECT 1")))
end

-- A bulk insert begins no event again, whatever its error.
function cases.bulk_refused()
   con:bulk_insert_init("INSERT INTO t VALUES")
   con:bulk_insert_next("(4), (4)")
   local ok, why = pcall(con.bulk_insert_done, con)
   say(ok, type(why))
   say((pcall(con.bulk_insert_init, con, "INSERT INTO nowhere VALUES")))
   con:bulk_insert_next("(4)")
   ok, why = pcall(con.bulk_insert_done, con)
   say(ok, type(why))
end

-- A statement without parameters is prepared at once.
function cases.not_prepared()
   local ok, why = pcall(con.prepare, con, "SELEC 1")
   say(ok, type(why))
   result(con:prepare("SELECT 1"):execute())
end

-- What is true ends the load.
function cases.gives_no_rows()
   return con:query("DELETE FROM t")
end

function cases.gives_rows()
   return con:query("SELECT 1")
end

function cases.caught()
   say(pcall(refused))
   say(xpcall(refused, function(why) return "handled " .. type(why) end))
   say(pcall(con.bulk_insert_done, con), con.error == sysbench.sql.error.NONE)
end

function cases.caught_ignorable()
   for _ = 1, 2 do
      local ok, why = pcall(con.query, con, "INSERT INTO t VALUES (1)")
      say(ok, type(why), type(why) == "table" and why.sql_state)
   end
end

function cases.caught_in_a_block()
   con:query("BEGIN")
   pcall(refused)
   say(pcall(refused))
   result(con:query("ROLLBACK"))
end

function cases.caught_and_thrown()
   local ok, why = pcall(con.query, con, "INSERT INTO t VALUES (3), (3)")
   say(ok, type(why))
   if calls == 1 then
      con:query("SELECT 1")
      error(why)
   end
end

function cases.begun_again()
   if calls == 1 then
      con:query("INSERT INTO t VALUES (2), (2)")
   end
end

function cases.coroutines()
   say(coroutine.running(), (pcall(coroutine.yield, 3, 2 ^ 52)))
   say(coroutine.wrap(function() return con:query("SELECT 1"):fetch_row()[1] end)())
   say(pcall(coroutine.wrap(refused)))
   local one = coroutine.create(function(first)
      local second = coroutine.yield(first, con:query_row("SELECT 7"))
      coroutine.wrap(function() coroutine.yield(con:query_row("SELECT " .. second)) end)()
      return con:query_row("SELECT 9")
   end)
   say(coroutine.resume(one, "begun"))
   say(coroutine.status(one), coroutine.resume(one, "8"))
   say(coroutine.status(one), coroutine.resume(one))
end

-- The host is the script's, as a plan's hooks and `\shell` of pgbench have it.
function cases.host()
   say(pcall(function() return ffi.C.usleep(1000), ffi.C.poll(nil, 0, 1) end))
   say(os.execute("true"), io.popen("echo said"):read(), type(debug.getregistry()))
   local name = os.tmpname()
   local file = assert(io.open(name, "w"))
   file:write("written")
   file:close()
   say(io.open(name):read(), os.remove(name), io.open(name) == nil)
   say(ffi.new("int[2]", 3, 4)[1], loadstring(string.dump(function() return 7 end))(), package.loadlib ~= nil)
end

function event()
   calls = calls + 1
   return cases[sysbench.opt.case]()
end
