-- Uses all of sysbench's API that both programs have, and prints what it gives.

local function say(...)
   local words = { ... }
   for at = 1, select("#", ...) do
      words[at] = tostring(words[at])
   end
   print("probe: " .. table.concat(words, " "))
end

local arg = sysbench.cmdline

arg.options = {
   tables = { "Number of tables", 1 },
   ["with-dash"] = { "Has a dash", 7 },
   name = { "A name", "x" },
   flag = { "A flag", false },
   on = { "A flag that is on", true },
   list = { "A list", { "a", "b" } },
   nothing = { "Has no default" },
   size = { "A size", "1K", arg.ARG_SIZE },
   whole = { "A whole number", 5, arg.ARG_INT },
   no_list = { "A list without a default", nil, arg.ARG_LIST },
   no_double = { "A number without a default", nil, arg.ARG_DOUBLE },
   no_whole = { "A whole number without a default", nil, arg.ARG_INT },
   no_flag = { "A flag without a default", nil, arg.ARG_BOOL },
}

local ran = {}

arg.commands = {
   twice = { function(...)
      say("twice", select("#", ...), sysbench.tid, arg.command, sysbench.opt.tables)
   end, arg.PARALLEL_COMMAND },
   once = { function(...) say("once", select("#", ...), sysbench.tid) return true end },
   bad = { function() return false end },
   prewarm = { function() ran[#ran + 1] = "prewarm" end },
   wrong = { function() error("it went wrong") end },
   empty = {},
}

function prepare(...)
   say("prepare", select("#", ...), sysbench.tid)
end

function help()
   say("help", arg.command)
   arg.print_test_options()
end

local function keys(t)
   local names = {}
   for name in pairs(t) do
      names[#names + 1] = tostring(name)
   end
   table.sort(names)
   return table.concat(names, ",")
end

local function check_names()
   for _, name in ipairs({ "sysbench.tid", "sysbench.version", "sysbench.error.NONE", "sysbench.error.RESTART_EVENT",
      "sysbench.cmdline.ARG_NULL", "sysbench.cmdline.ARG_BOOL", "sysbench.cmdline.ARG_INT", "sysbench.cmdline.ARG_SIZE",
      "sysbench.cmdline.ARG_DOUBLE", "sysbench.cmdline.ARG_STRING", "sysbench.cmdline.ARG_LIST",
      "sysbench.cmdline.ARG_FILE", "sysbench.cmdline.ARG_MAX", "sysbench.cmdline.PARALLEL_COMMAND",
      "sysbench.cmdline.command", "sysbench.db.DB_ERROR_NONE", "sysbench.db.DB_ERROR_RESTART_TRANSACTION",
      "sysbench.db.DB_ERROR_FAILED", "DB_ERROR_NONE", "DB_ERROR_RESTART_TRANSACTION", "DB_ERROR_FAILED", "thread_id",
      "myisam_max_rows", "mysql_table_engine" }) do
      say(name, loadstring("return " .. name)())
   end
   say(tonumber(sysbench.sql.error.NONE), tonumber(sysbench.sql.error.IGNORABLE), tonumber(sysbench.sql.error.FATAL))
   local kinds = {}
   for name, number in pairs(sysbench.sql.type) do
      kinds[tonumber(number) + 1] = name
   end
   say(unpack(kinds))
   say(test == arg.script_path, type(ffi), type(arg.argv), type(sysbench.version_string))
   say(type(thread_run), type(sysbench.report_csv), type(sysbench.report_json), type(sysbench.report_default))
end

local function check_options()
   for _, name in ipairs({ "tables", "with_dash", "name", "flag", "on", "list", "nothing", "size", "whole", "no_list",
      "no_double", "no_whole", "no_flag", "validate", "debug", "threads", "events", "time", "rate", "report_interval",
      "percentile", "histogram", "verbosity", "db_driver", "db_ps_mode", "db_debug", "rand_type", "rand_seed",
      "rand_spec_iter", "rand_spec_pct", "rand_spec_res", "rand_pareto_h", "pgsql_host", "pgsql_port", "pgsql_user",
      "pgsql_password", "pgsql_db", "help", "version", "config_file", "num_threads", "max_time",
      "tx_rate", "forced_shutdown", "thread_stack_size", "report_checkpoints" }) do
      local value = sysbench.opt[name]
      say("opt", name, type(value), type(value) == "table" and table.concat(value, "|") or value)
   end
end

local function check_cmdline()
   for _, name in ipairs({ "twice", "once", "bad", "empty", "prepare", "nowhere" }) do
      say(name, arg.command_defined(name), arg.command_parallel(name))
   end
   say(arg.call_command("prewarm"), arg.call_command("once"), arg.call_command("bad"), arg.call_command("nowhere"))
   say(#ran, pcall(arg.call_command, "wrong"))
   say(arg.read_cmdline_options())
   arg.print_test_options()
   local kept = arg.options
   arg.options = nil
   say(arg.read_cmdline_options())
   arg.options = kept
end

local function check_histogram()
   local h = sysbench.histogram.new(8, 1, 1000)
   h:print()
   for value = 1, 300 do
      h:update(value)
   end
   for _, value in ipairs({ 0, -5, 0.001, 1e9 }) do
      h:update(value)
   end
   h:print()
end

local function mean(draw)
   local sum, least, most = 0, math.huge, -math.huge
   for _ = 1, 20000 do
      local value = draw()
      assert(value % 1 == 0, "not a whole number")
      sum, least, most = sum + value, math.min(least, value), math.max(most, value)
   end
   return sum / 20000, least, most
end

local function check_random()
   local r = sysbench.rand
   -- means to a few percent, bounds where they are certain
   for _, name in ipairs({ "default", "uniform", "gaussian", "special", "pareto" }) do
      local of_rand = { mean(function() return r[name](1, 1000) end) }
      local of_ffi = { mean(function() return ffi.C["sb_rand_" .. name](1, 1000) end) }
      say("rand", name, math.floor(of_rand[1] / 25 + 0.5), math.floor(of_ffi[1] / 25 + 0.5),
         of_rand[2] >= 1, of_rand[3] <= 1000, of_ffi[2] >= 1, of_ffi[3] <= 1000)
   end
   say(r.uniform(7, 7), r.uniform(2.9, 2.9), sb_rand_uniform(5, 5), sb_rand(6, 6), sb_rand_gaussian(1, 1), sb_rand_special(4, 4))
   local d = r.uniform_double()
   say(d >= 0 and d < 1, type(ffi.C.sb_rand_uniform_double()))
   say(type(r.uniform_uint64()), tostring(ffi.typeof(r.uniform_uint64())), tostring(ffi.typeof(ffi.C.sb_rand_uniform_uint64())))
   local seen, twice = {}, 0
   for _ = 1, 1000 do
      local one = r.unique()
      twice = twice + (seen[one] and 1 or 0)
      seen[one] = true
   end
   say("unique", twice, type(ffi.C.sb_rand_unique()))
   say(#r.string("a##-@@\\n"), r.string("##-@@b"):match("^%d%d%-%l%lb$") ~= nil, sb_rand_str("zz"))
   local buffer = ffi.new("char[6]")
   ffi.C.sb_rand_str("##-@@", buffer)
   say(ffi.string(buffer):match("^%d%d%-%l%l$") ~= nil)
   local odd = sb_rand_uniq(4000000000, 4294967295)
   say(odd >= 4000000000, type(sb_rnd()), sb_rnd() < 4294967296)
end

local function check_sql()
   local drv = sysbench.sql.driver("pgsql")
   say(drv, drv:name())
   local con = sysbench.sql.driver():connect()
   -- what is no result is a null pointer in sysbench, which is equal to nil
   local function no_result(text)
      return con:query(text) == nil
   end
   say(con, tonumber(con.error), no_result("SET client_min_messages = error"))
   say(no_result("DROP TABLE IF EXISTS probe"), no_result("CREATE TABLE probe (id int PRIMARY KEY, t text)"))
   say(no_result("INSERT INTO probe VALUES (1, 'one'), (2, NULL), (3, '')"))
   local rs = con:query("SELECT * FROM probe ORDER BY 1")
   say(rs, rs.nrows, rs.nfields)
   for _ = 1, rs.nrows do
      local row = rs:fetch_row()
      say(type(row), row[1], row[2])
   end
   say("past", rs:fetch_row())
   say("free", (rs:free()))
   say(con:query_row("SELECT 1, NULL, 'x'"))
   say(con:query_row("SELECT 1 WHERE false"))
   say(con:query_row("SELECT 7; SELECT 8"))
   say(no_result("UPDATE probe SET t = 'z' WHERE id = 9"))
   -- errors
   local function fails(text)
      local _ = con:query(text)
   end
   local ok, err = pcall(fails, "SELECT * FROM nowhere")
   say(ok, type(err), err)
   say(tonumber(con.error), tonumber(con.sql_errno), ffi.string(con.sql_state), ffi.string(con.sql_errmsg))
   say(pcall(function()
      local _ = con:check_error(nil, "q")
   end))
   say(con:check_error(7, "q"))
   con:query("SELECT 1")
   say(tonumber(con.error), con:check_error(nil, "q"))
   ok, err = pcall(con.query, con, "INSERT INTO probe VALUES (1)")
   say(ok, type(err), err.errcode, err.sql_errno, err.sql_state, err.sql_errmsg, err.query, err.connection == con)
   say(tonumber(con.error), keys(err))
   local hooked
   sysbench.hooks.sql_error_ignorable = function(e)
      hooked = e.sql_state .. " " .. e.sql_errmsg .. " " .. keys(e)
      return e.sql_state == "22012"
   end
   ok, err = pcall(con.query, con, "SELECT 1/0")
   say(ok, type(err), err.errcode, err.query, hooked)
   hooked = nil
   ok, err = pcall(con.query, con, "INSERT INTO probe VALUES (1)")
   say(ok, type(err), hooked)
   ok, err = pcall(con.query, con, "SELECT wrong")
   say(ok, type(err), hooked)
   sysbench.hooks.sql_error_ignorable = nil
   -- statements
   local st = con:prepare("SELECT ?::int + 1, ?::text")
   local p, q = st:bind_create(sysbench.sql.type.INT), st:bind_create(sysbench.sql.type.VARCHAR, 10)
   say(st, p)
   say("bind", st:bind_param(p, q), st:bind_param())
   p:set(41.9)
   q:set("word")
   rs = st:execute()
   say(rs, rs.nrows, rs.nfields, rs:fetch_row() ~= nil)
   p:set(sysbench.rand.uniform_uint64() % 1000000)
   q:set("longer than ten")
   st:execute()
   p:set(nil)
   q:set_rand_str("##@@")
   st:execute()
   local typed = con:prepare("INSERT INTO probe SELECT 100, pg_typeof(?) || ' ' || pg_typeof(?) || ' ' || pg_typeof(?) || ?")
   local kinds = sysbench.sql.type
   local params = { typed:bind_create(kinds.INT), typed:bind_create(kinds.FLOAT), typed:bind_create(kinds.CHAR, 5),
      typed:bind_create(kinds.VARCHAR, 3) }
   typed:bind_param(unpack(params))
   params[4]:set("three")
   typed:execute()
   say(con:query_row("SELECT t FROM probe WHERE id = 100"))
   con:query("DELETE FROM probe WHERE id = 100")
   local none = con:prepare("UPDATE probe SET t = t WHERE id < 0")
   say(none:execute() == nil)
   say((pcall(st.bind_create, st, 99)))
   say(none:close(), st:close())
   st = con:prepare("INSERT INTO probe VALUES (?)")
   p = st:bind_create(sysbench.sql.type.INT)
   st:bind_param(p)
   p:set(1)
   ok, err = pcall(st.execute, st)
   say(ok, type(err), err.query, err.sql_state)
   -- bulk
   say((con:bulk_insert_init("INSERT INTO probe VALUES")))
   say((con:bulk_insert_next("(10, 'b')")), (con:bulk_insert_next("(11, 'c')")))
   say((con:bulk_insert_done()))
   say(con:query_row("SELECT count(*) FROM probe"))
   say("disconnect", con:disconnect())
   say((pcall(sysbench.sql.driver, "nowhere")))
end

local function check_old_sql()
   say(db_connect(), db_driver)
   say(select("#", db_query("SELECT 1")))
   db_query("CREATE TEMP TABLE old (a int)")
   local st = db_prepare("INSERT INTO old VALUES (?)")
   local values = { 5 }
   say("old", db_bind_param(st, values))
   db_execute(st)
   values[1] = 6
   local rs = db_execute(st)
   say(db_store_results(rs), db_free_results(rs), db_close(st))
   db_bulk_insert_init("INSERT INTO old VALUES")
   db_bulk_insert_next("(7)")
   db_bulk_insert_done()
   local ok, err = pcall(db_query, "DO $$ BEGIN IF (SELECT sum(a) FROM old) = 18 THEN RAISE unique_violation; END IF; END $$")
   say(ok, type(err), err.errcode)
   db_disconnect()
end

function init() say("init", type(sysbench.opt)) end
function thread_init(...) say("thread_init", select("#", ...), ...) end
function thread_done(...) say("thread_done", select("#", ...), ...) end
function done() say("done") end

local calls = 0
function event(...)
   calls = calls + 1
   if calls > 1 then return end
   say("event", select("#", ...), ...)
   check_names()
   check_options()
   check_cmdline()
   check_histogram()
   check_random()
   check_sql()
   check_old_sql()
end
