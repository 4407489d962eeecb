-- Rows of two numbers in statements as long as sysbench makes them, each client into a table of its
-- own: sbtest1 for the first. An event is one row, so that most events send nothing.
local con
local rows = 0

local function table_of(tid)
   return "sbtest" .. (tid + 1)
end

function prepare()
   con = sysbench.sql.driver():connect()
   for tid = 0, sysbench.opt.threads - 1 do
      con:query("CREATE TABLE IF NOT EXISTS " .. table_of(tid)
         .. " (id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (id))")
   end
end

function cleanup()
   con = sysbench.sql.driver():connect()
   for tid = 0, sysbench.opt.threads - 1 do
      con:query("DROP TABLE IF EXISTS " .. table_of(tid))
   end
end

function thread_init()
   con = sysbench.sql.driver():connect()
   con:bulk_insert_init("INSERT INTO " .. table_of(sysbench.tid) .. " VALUES")
end

function event()
   rows = rows + 1
   con:bulk_insert_next("(" .. rows .. "," .. rows .. ")")
end

function thread_done()
   con:bulk_insert_done()
end
