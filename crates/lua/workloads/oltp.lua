-- The OLTP workloads: transactions on the tables sbtest1, sbtest2... of dataset sbtest.
--
-- A workload is a list of steps. A step takes a table at random and runs its statements as often as
-- an option says, each time with values of its own.
local oltp = {}

local INT, CHAR = sysbench.sql.type.INT, sysbench.sql.type.CHAR

local C = string.rep("###########-", 9) .. "###########"
local PAD = string.rep("###########-", 4) .. "###########"

sysbench.cmdline.options = {
   tables = { "number of tables", 1, least = 1, most = 100000 },
   table_size = { "rows of a table", 10000, least = 1, most = 2147483647 },
   range_size = { "rows of a range", 100, least = 1, most = 2147483647 },
   point_selects = { "rows read by key in a transaction", 10, least = 0, most = 1000000 },
   simple_ranges = { "ranges read in a transaction", 1, least = 0, most = 1000000 },
   sum_ranges = { "ranges summed up in a transaction", 1, least = 0, most = 1000000 },
   order_ranges = { "ranges sorted in a transaction", 1, least = 0, most = 1000000 },
   distinct_ranges = { "ranges without duplicates in a transaction", 1, least = 0, most = 1000000 },
   index_updates = { "updates of an indexed column in a transaction", 1, least = 0, most = 1000000 },
   non_index_updates = { "updates of another column in a transaction", 1, least = 0, most = 1000000 },
   delete_inserts = { "rows deleted and inserted again in a transaction", 1, least = 0, most = 1000000 },
   range_selects = { "whether ranges are read at all", true },
   skip_trx = { "whether every statement commits by itself", false },
   auto_inc = { "whether oltp-insert leaves the key to the server", true },
}

local function any_id()
   return sysbench.rand.default(1, sysbench.opt.table_size)
end

local function any_table()
   return sysbench.rand.uniform(1, sysbench.opt.tables)
end

-- Statements by name: the text, with the number of the table in it; what each parameter is.
local statements = {
   point = { "SELECT c FROM sbtest%u WHERE id=?", { INT } },
   simple = { "SELECT c FROM sbtest%u WHERE id BETWEEN ? AND ?", { INT, INT } },
   sum = { "SELECT SUM(k) FROM sbtest%u WHERE id BETWEEN ? AND ?", { INT, INT } },
   order = { "SELECT c FROM sbtest%u WHERE id BETWEEN ? AND ? ORDER BY c", { INT, INT } },
   distinct = {
      "SELECT DISTINCT c FROM sbtest%u WHERE id BETWEEN ? AND ? ORDER BY c", { INT, INT },
   },
   index = { "UPDATE sbtest%u SET k=k+1 WHERE id=?", { INT } },
   non_index = { "UPDATE sbtest%u SET c=? WHERE id=?", { CHAR, INT } },
   delete = { "DELETE FROM sbtest%u WHERE id=?", { INT } },
   insert = {
      "INSERT INTO sbtest%u (id, k, c, pad) VALUES (?, ?, ?, ?)", { INT, INT, CHAR, CHAR },
   },
}

-- Prepared statements of this client: by name and table, made when the session begins.
local prepared

local function prepare(con, name)
   local text, kinds = unpack(statements[name])
   prepared[name] = {}
   for number = 1, sysbench.opt.tables do
      local statement = con:prepare(text:format(number))
      local params = {}
      for at, kind in ipairs(kinds) do
         params[at] = statement:bind_create(kind, 120)
      end
      statement:bind_param(unpack(params))
      prepared[name][number] = { statement = statement, params = params }
   end
end

local function execute_key(name, number, id)
   local entry = prepared[name][number]
   entry.params[1]:set(id)
   entry.statement:execute()
end

local function ranges(name)
   return function(number)
      local entry, first = prepared[name][number], any_id()
      entry.params[1]:set(first)
      entry.params[2]:set(first + sysbench.opt.range_size - 1)
      entry.statement:execute()
   end
end

local function by_key(name)
   return function(number)
      execute_key(name, number, any_id())
   end
end

-- Steps by name: the option that says how often, the statements needed, what is done on a table.
local steps = {
   points = { "point_selects", { "point" }, by_key("point") },
   simple = { "simple_ranges", { "simple" }, ranges("simple") },
   sum = { "sum_ranges", { "sum" }, ranges("sum") },
   order = { "order_ranges", { "order" }, ranges("order") },
   distinct = { "distinct_ranges", { "distinct" }, ranges("distinct") },
   index = { "index_updates", { "index" }, by_key("index") },
   non_index = {
      "non_index_updates", { "non_index" },
      function(number)
         local entry = prepared.non_index[number]
         entry.params[1]:set_rand_str(C)
         entry.params[2]:set(any_id())
         entry.statement:execute()
      end,
   },
   replace = {
      "delete_inserts", { "delete", "insert" },
      function(number)
         local id = any_id()
         local entry = prepared.insert[number]
         entry.params[1]:set(id)
         entry.params[2]:set(any_id())
         entry.params[3]:set_rand_str(C)
         entry.params[4]:set_rand_str(PAD)
         execute_key("delete", number, id)
         entry.statement:execute()
      end,
   },
}

local READS = { "points", "simple", "sum", "order", "distinct" }
local WRITES = { "index", "non_index", "replace" }

-- Workloads of one transaction block, by their steps.
local blocks = {
   read_only = READS,
   write_only = WRITES,
   read_write = { "points", "simple", "sum", "order", "distinct", "index", "non_index", "replace" },
}

-- Workloads of one statement that commits by itself.
local singles = {
   point_select = "points",
   update_index = "index",
   update_non_index = "non_index",
}

local is_range = { simple = true, sum = true, order = true, distinct = true }

local function wanted_steps(names)
   local wanted = {}
   for _, name in ipairs(names) do
      if sysbench.opt[steps[name][1]] > 0 and (sysbench.opt.range_selects or not is_range[name]) then
         wanted[#wanted + 1] = name
      end
   end
   return wanted
end

local function run_block(names)
   local con, begin, commit, wanted
   function thread_init()
      con = sysbench.sql.driver():connect()
      prepared, wanted = {}, wanted_steps(names)
      if not sysbench.opt.skip_trx then
         begin, commit = con:prepare("BEGIN"), con:prepare("COMMIT")
      end
      for _, name in ipairs(wanted) do
         for _, statement in ipairs(steps[name][2]) do
            prepare(con, statement)
         end
      end
   end
   function event()
      if begin then
         begin:execute()
      end
      for _, name in ipairs(wanted) do
         local option, _, act = unpack(steps[name])
         local number = any_table()
         for _ = 1, sysbench.opt[option] do
            act(number)
         end
      end
      if commit then
         commit:execute()
      end
   end
end

local function run_single(name)
   local option, names, act = unpack(steps[name])
   function thread_init()
      local con = sysbench.sql.driver():connect()
      prepared = {}
      for _, statement in ipairs(names) do
         prepare(con, statement)
      end
   end
   function event()
      local number = any_table()
      for _ = 1, name == "points" and 1 or sysbench.opt[option] do
         act(number)
      end
   end
end

local function run_delete()
   function thread_init()
      prepared = {}
      prepare(sysbench.sql.driver():connect(), "delete")
   end
   function event()
      execute_key("delete", any_table(), any_id())
   end
end

local function run_insert()
   local con
   function thread_init()
      con = sysbench.sql.driver():connect()
   end
   function event()
      local name = "sbtest" .. any_table()
      local k, c, pad = any_id(), sysbench.rand.string(C), sysbench.rand.string(PAD)
      if sysbench.opt.auto_inc then
         con:query(("INSERT INTO %s (k, c, pad) VALUES (%d, '%s', '%s')"):format(name, k, c, pad))
      else
         -- keys of this client alone, whatever the dataset holds
         local id = sysbench.rand.unique(1, 0x7fffffff)
         con:query(("INSERT INTO %s (id, k, c, pad) VALUES (%d, %d, '%s', '%s')")
            :format(name, id, k, c, pad))
      end
   end
end

function oltp.run(name)
   if blocks[name] then
      run_block(blocks[name])
   elseif singles[name] then
      run_single(singles[name])
   elseif name == "delete" then
      run_delete()
   else
      run_insert()
   end
end

return oltp
