-- sysbench's SQL API on the client's session. A statement gives way to the engine, which comes back
-- with the answer.
local engine, random = ...

local yield, running = coroutine.yield, coroutine.running
local concat, insert = table.concat, table.insert
local codes, asks = engine.codes, engine.asks

-- Bytes of a multi-row INSERT, as sysbench has them.
local BULK_BYTES = 512 * 1024
-- Parameters that are handed over without a table around them.
local FEW = 4

local session = {}

-- What is raised in a script whose connection or transaction is gone.
session.INTERRUPTED = setmetatable({}, {
   __tostring = function()
      return "the connection was lost"
   end,
})

-- What errors mean to a script, and the types of parameters with their OIDs.
session.errors = { NONE = 0, IGNORABLE = 1, FATAL = 2 }
session.RESTART_EVENT = 1
session.types = {
   NONE = 0, TINYINT = 1, SMALLINT = 2, INT = 3, BIGINT = 4, FLOAT = 5, DOUBLE = 6,
   TIME = 7, DATE = 8, DATETIME = 9, TIMESTAMP = 10, CHAR = 11, VARCHAR = 12,
}
local oids = {
   [1] = 21, [2] = 21, [3] = 23, [4] = 20, [5] = 700, [6] = 701,
   [7] = 1083, [8] = 1082, [9] = 1114, [10] = 1114, [11] = 1042, [12] = 1043,
}

local ignorable = { ["40P01"] = true, ["40001"] = true, ["23505"] = true }

local function in_words(errdesc)
   return string.format("SQL error, SQLSTATE %s: %s", errdesc.sql_state, errdesc.sql_errmsg)
end

-- The table that scripts get as an error; tostring() is for those that print it.
local description = { __tostring = in_words }

-- A statement has failed, or the session is not what it was.
local function fail(con, query, code, sqlstate, message, in_block)
   if code ~= codes.REFUSED then
      con.link.interrupted = code
      error(session.INTERRUPTED, 0)
   end
   local errdesc = setmetatable({
      connection = con,
      query = query,
      sql_errno = 0,
      sql_state = sqlstate,
      sql_errmsg = message,
      where = engine.where(),
   }, description)
   local hook = con.sysbench.hooks.sql_error_ignorable
   if ignorable[sqlstate] or (type(hook) == "function" and hook(errdesc)) then
      errdesc.errcode = session.RESTART_EVENT
      if in_block then
         yield(asks.QUERY, "ROLLBACK")
         random.use(con.generator)
      end
   end
   error(errdesc, 0)
end

local function check_running(con)
   if running() ~= con.link.thread then
      error("statements are sent by the script itself, not by a coroutine that it made", 4)
   end
end

-- Has the engine change the client's connections.
local function change(con, op, number)
   local code, _, why = yield(op, number)
   random.use(con.generator)
   if code == codes.REFUSED then
      error("could not connect: " .. why, 0)
   elseif code ~= codes.ANSWERED then
      con.link.interrupted = code
      error(session.INTERRUPTED, 0)
   end
end

-- Rows of a result that the script has not fetched yet stay to be fetched when others come between.
local function keep_rows(con)
   local result = con.link.all[con.link.current].result
   if result.nfields > 0 and result.nrows > 0 and result.rows == nil then
      result.rows = yield(asks.FETCH)
   end
end

-- Makes a connection the one that statements go to.
local function use(con)
   local link = con.link
   if link.current ~= con.number then
      keep_rows(con)
      change(con, asks.USE, con.number)
      link.current = con.number
   end
end

-- Sends, waits and gives rows and fields of the result.
local function ask(con, query, op, a, b, c, d, e, f)
   check_running(con)
   if con.link.current ~= con.number then
      use(con)
   end
   local code, rows, fields, in_block = yield(op, a, b, c, d, e, f)
   random.use(con.generator)
   if code ~= codes.ANSWERED then
      fail(con, query, code, rows, fields, in_block)
   end
   if fields == nil then
      return nil
   end
   local result = con.result
   result.nrows, result.nfields, result.at, result.rows = rows, fields, 0, nil
   return result
end

-- Results: the rows of the last statement of a connection, as in sysbench.

local result_methods = {}
result_methods.__index = result_methods

function result_methods:fetch_row()
   if self.at >= self.nrows then
      return nil
   end
   local rows = self.rows
   if rows == nil then
      rows = yield(asks.FETCH)
      self.rows = rows
   end
   if rows == nil or rows[self.at + 1] == nil then
      error("the rows of this result are not there any more", 2)
   end
   local at = self.at + 1
   self.at = at
   return rows[at]
end

function result_methods:free()
   self.nrows, self.rows = 0, nil
end

-- Parameters and statements. There may be very many of both, a set for each client, so they are
-- arrays: a table with names takes three times the memory.

local VALUE, IS_TEMPLATE, OID = 1, 2, 3

local parameter_methods = {}
parameter_methods.__index = parameter_methods

function parameter_methods:set(value)
   self[VALUE], self[IS_TEMPLATE] = value, false
end

function parameter_methods:set_rand_str(template)
   self[VALUE], self[IS_TEMPLATE] = template, true
end

local CON, QUERY, NUMBER, COUNT, IS_CLOSED = 1, 2, 3, 4, 5
-- The first parameter is behind it.
local PARAMS = 5

local statement_methods = {}
statement_methods.__index = statement_methods

function statement_methods:bind_create(kind)
   if type(kind) ~= "number" or oids[kind] == nil then
      error("there is no parameter type " .. tostring(kind), 2)
   end
   return setmetatable({ false, false, oids[kind] }, parameter_methods)
end

-- Prepares it, now that the types of its parameters are known.
local function make(statement)
   local types = {}
   for at = 1, statement[COUNT] do
      types[at] = statement[PARAMS + at][OID]
   end
   local con, query = statement[CON], statement[QUERY]
   local number = engine.statement(query, types)
   statement[NUMBER] = number
   con.prepared[number + 1] = query
   ask(con, query, asks.PREPARE, number)
end

function statement_methods:bind_param(...)
   local count = select("#", ...)
   for at = 1, count do
      local param = select(at, ...)
      if getmetatable(param) ~= parameter_methods then
         error("parameter " .. at .. " was not made by bind_create()", 2)
      end
      self[PARAMS + at] = param
   end
   self[COUNT] = count
   make(self)
end

function statement_methods:execute()
   if not self[NUMBER] then
      if self[IS_CLOSED] then
         error("the statement is closed", 2)
      end
      make(self)
   end
   local con, query, number, count = self[CON], self[QUERY], self[NUMBER], self[COUNT]
   if count == 0 then
      return ask(con, query, asks.EXECUTE, number, 0)
   end
   local templates = 0
   for at = 1, count do
      if self[PARAMS + at][IS_TEMPLATE] then
         templates = templates + 2 ^ (at - 1)
      end
   end
   if count > FEW then
      local values = {}
      for at = 1, count do
         values[at] = self[PARAMS + at][VALUE]
      end
      return ask(con, query, asks.EXECUTE_MANY, number, templates, count, values)
   end
   local p1, p2, p3, p4 = self[PARAMS + 1], self[PARAMS + 2], self[PARAMS + 3], self[PARAMS + 4]
   return ask(con, query, asks.EXECUTE, number, templates,
      p1[VALUE], p2 and p2[VALUE], p3 and p3[VALUE], p4 and p4[VALUE])
end

-- The session keeps it: there may be many clients that close many statements at the end of a load,
-- and one that is prepared again is found there.
function statement_methods:close()
   self[NUMBER], self[IS_CLOSED] = false, true
end

statement_methods.free = statement_methods.close

-- Connections

local connection_methods = {}
connection_methods.__index = connection_methods

local function check_open(con)
   if not con.is_open then
      error("the connection is closed", 3)
   end
end

function connection_methods:query(query)
   check_open(self)
   return ask(self, query, asks.QUERY, query)
end

function connection_methods:query_row(query)
   local result = self:query(query)
   if result == nil then
      return nil
   end
   local row = result:fetch_row()
   if row == nil then
      return nil
   end
   return unpack(row, 1, result.nfields)
end

function connection_methods:prepare(query)
   check_open(self)
   return setmetatable({ self, query, false, 0, false }, statement_methods)
end

function connection_methods:disconnect()
   if not self.is_open then
      return
   end
   self.is_open = false
   self.was_used = true
   self.prepared = {}
   local link = self.link
   if self.number > 0 then
      check_running(self)
      use(link.all[0])
      change(self, asks.CLOSE, self.number)
      link.all[self.number] = nil
   end
end

connection_methods.free = connection_methods.disconnect

-- A new connection in place of this one: nothing is prepared in it.
local function replace(con, counts)
   check_running(con)
   use(con)
   con.prepared = {}
   con.result.nrows, con.result.rows = 0, nil
   change(con, asks.REPLACE, counts)
end

function connection_methods:reconnect()
   check_open(self)
   replace(self, true)
   return true
end

function connection_methods:bulk_insert_init(query)
   self.bulk = { head = query, bytes = #query, rows = {} }
end

local function flush(con)
   local bulk = con.bulk
   if #bulk.rows > 0 then
      local query = bulk.head .. " " .. concat(bulk.rows, ",")
      bulk.rows, bulk.bytes = {}, #bulk.head
      con:query(query)
   end
end

function connection_methods:bulk_insert_next(row)
   local bulk = self.bulk
   if bulk == nil then
      error("bulk_insert_init() comes before bulk_insert_next()", 2)
   end
   if bulk.bytes + #row + 1 >= BULK_BYTES then
      flush(self)
   end
   insert(bulk.rows, row)
   bulk.bytes = bulk.bytes + #row + 1
end

function connection_methods:bulk_insert_done()
   if self.bulk then
      flush(self)
      self.bulk = nil
   end
end

-- Drivers: there is one.

local driver_methods = {}
driver_methods.__index = driver_methods

function driver_methods:name()
   return "pgsql"
end

-- A connection beside those that the client has.
local function open_another(first)
   if engine.per_transaction then
      error("with a connection for each transaction (-C) a client has one: disconnect() comes before another connect()", 3)
   end
   local link = first.link
   check_running(first)
   local number = 1
   while link.all[number] do
      number = number + 1
   end
   keep_rows(first)
   change(first, asks.OPEN, number)
   link.current = number
   local con = session.connection(first.sysbench, first.generator, link, number)
   con.is_open = true
   return con
end

function driver_methods:connect()
   local con = self.con
   if con.is_open then
      return open_another(con)
   end
   con.is_open = true
   if con.was_used then
      replace(con)
   end
   return con
end

-- Connection number `number` of a client, not open yet. Its link knows all of them, and which is
-- current; number 0 is there as long as the client.
function session.connection(sysbench, generator, link, number)
   local con = {
      sysbench = sysbench,
      generator = generator,
      link = link,
      number = number,
      error = 0,
      -- Texts of what is prepared, by number.
      prepared = {},
      result = setmetatable({ nrows = 0, nfields = 0, at = 0 }, result_methods),
   }
   link.all[number] = setmetatable(con, connection_methods)
   return con
end

function session.sql(con)
   local driver = setmetatable({ con = con }, driver_methods)
   return {
      driver = function(name)
         if name ~= nil and name ~= "pgsql" then
            error("there is no driver " .. tostring(name) .. ": pgdrive is for PostgreSQL", 2)
         end
         return driver
      end,
      type = session.types,
      error = session.errors,
      HAS_MULTI_ROWS_INSERT = 1,
   }
end

-- Prepares again what the session before had prepared.
function session.restore(link)
   local con = link.all[link.current]
   for number, query in pairs(con.prepared) do
      ask(con, query, asks.PREPARE, number - 1)
   end
end

session.in_words = in_words
session.is_error = function(value)
   return getmetatable(value) == description
end

return session
