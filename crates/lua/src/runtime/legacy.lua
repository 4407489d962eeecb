-- The API of sysbench 0.5, which 1.0 still has: sysbench.db, where the connection is a thread's, and
-- global names. The same functions serve all clients.
local random, session = ...

local legacy = {}

-- The client's connection; it is made when it is first used.
local function connection()
   local self = random.client()
   if not self.con.is_open then
      self.sysbench.sql.driver():connect()
   end
   return self.con
end

-- By statement: its parameters, and the table that the script keeps their values in.
local bound = setmetatable({}, { __mode = "k" })

local db = {
   DB_ERROR_NONE = session.errors.NONE,
   DB_ERROR_RESTART_TRANSACTION = session.errors.IGNORABLE,
   DB_ERROR_FAILED = session.errors.FATAL,
}

function db.connect()
   connection()
   random.client().env.db_driver = "pgsql"
end

function db.disconnect()
   random.client().con:disconnect()
end

function db.query(query)
   connection():query(query)
end

function db.bulk_insert_init(query)
   connection():bulk_insert_init(query)
end

function db.bulk_insert_next(row)
   connection():bulk_insert_next(row)
end

function db.bulk_insert_done()
   connection():bulk_insert_done()
end

function db.prepare(query)
   return connection():prepare(query)
end

-- The types are those of the values that are in the table now.
function db.bind_param(statement, values)
   local params = {}
   for at, value in ipairs(values) do
      local kind = type(value)
      if kind == "number" then
         params[at] = statement:bind_create(session.types.INT)
      elseif kind == "string" then
         params[at] = statement:bind_create(session.types.VARCHAR)
      else
         error("a parameter is a number or a string, not a " .. kind, 2)
      end
   end
   if #params == 0 then
      error("table is empty", 2)
   end
   statement:bind_param(unpack(params))
   bound[statement] = { params = params, values = values }
end

-- Rows are not bound to variables; sysbench's driver does not do that either.
function db.bind_result() end

function db.execute(statement)
   local known = bound[statement]
   if known then
      for at, param in ipairs(known.params) do
         param:set(known.values[at])
      end
   end
   return statement:execute()
end

function db.store_results() end

function db.free_results(result)
   result:free()
end

function db.close(statement)
   bound[statement] = nil
   statement:close()
end

legacy.db = db

-- Global names, besides those of random numbers.
legacy.globals = { myisam_max_rows = 1000000, mysql_table_engine = "innodb" }
for name, value in pairs(db) do
   legacy.globals[type(value) == "function" and "db_" .. name or name] = value
end

local api = random.api
for name, draw in pairs({
   sb_rand = api.default,
   sb_rand_uniform = api.uniform,
   sb_rand_gaussian = api.gaussian,
   sb_rand_special = api.special,
   sb_rand_pareto = api.pareto,
   sb_rand_zipfian = api.zipfian,
   sb_rand_str = api.string,
   sb_rand_uniq = random.unique_between,
   sb_rnd = random.bits,
}) do
   legacy.globals[name] = draw
end

return legacy
