-- sysbench's SQL API on the client's session. A statement gives way to the engine, which comes back
-- with the answer.
local engine, random = ...

local ask_engine = engine.coroutines.ask
local byte, sub = string.byte, string.sub
local concat, insert = table.concat, table.insert
local new_table = require("table.new")
local codes, asks, ffi = engine.codes, engine.asks, engine.ffi
local parameters = engine.parts.parameters()
local VALUE, IS_TEMPLATE, KIND = parameters.VALUE, parameters.IS_TEMPLATE, parameters.KIND

-- Bytes of a multi-row INSERT, as sysbench has them.
local BULK_BYTES = 512 * 1024
-- What an error of a prepared statement has as its query, as in sysbench.
local PREPARED = "<prepared statement>"
-- The same of a bulk insert, whose errors begin no event again.
local BULK = "<bulk insert>"
-- Parameters that are handed over without a table around them.
local FEW = 4

local session = {}

-- What is raised in a script whose connection or transaction is gone, or that was refused something.
local INTERRUPTED = setmetatable({}, {
   __tostring = function()
      return "the connection was lost"
   end,
})

-- What a statement without rows gives: in sysbench a null pointer, which is true and equal to nil.
local NOTHING = ffi.metatype(ffi.typeof("struct { char nothing; }"), {
   __index = {
      nrows = 0,
      nfields = 0,
      fetch_row = function() end,
      free = function()
         return true
      end,
   },
   __tostring = function()
      return "<sql_result>"
   end,
})
NOTHING = ffi.cast(ffi.typeof("$ *", NOTHING), nil)

-- What errors mean to a script, and the types of parameters.
session.errors = { NONE = 0, IGNORABLE = 1, FATAL = 2 }
session.RESTART_EVENT = 1
session.types = parameters.types
local NONE, IGNORABLE, FATAL = session.errors.NONE, session.errors.IGNORABLE, session.errors.FATAL

-- Errors that sysbench's driver for PostgreSQL ignores.
local ignorable = { ["40P01"] = true, ["40001"] = true, ["23505"] = true }

-- The table that scripts get as an error; tostring() is for those that print it.
local description = {
   __tostring = function(errdesc)
      return string.format("SQL error, SQLSTATE %s: %s", errdesc.sql_state, errdesc.sql_errmsg)
   end,
}

-- The client's connection was lost, or its load is over: the engine's word is kept for when the script
-- has come back, and until then no statement is sent.
local function interrupt(link, code)
   link.interrupted = code
   error(INTERRUPTED, 0)
end

-- Ends the client because of what sysbench can do and pgdrive cannot, whatever the script catches.
local function refuse(link, words)
   link.refusal = words .. engine.where()
   interrupt(link, codes.ENDING)
end

-- The engine's word that the script has not seen yet; or its next one, after a refusal.
function session.interruption(link)
   local code = link.interrupted
   link.interrupted = nil
   session.settle(link)
   if link.refusal then
      return ask_engine(asks.ABORT, link.refusal)
   end
   return code
end

local function clear_error(con)
   con.error, con.sql_state, con.sql_errmsg, con.in_block = NONE, nil, nil, nil
end

-- A script sees the last error of a connection in its fields.
local function keep_error(con, sqlstate, message, in_block)
   con.error = ignorable[sqlstate] and IGNORABLE or FATAL
   con.sql_state, con.sql_errmsg, con.in_block = sqlstate, message, in_block
end

-- Counts the last error of a transaction that goes on: the script has caught it.
function session.settle(link)
   if link.failure then
      link.failure = nil
      engine.count(4, 1)
   end
end

-- Notes what is raised, for the case that it ends the transaction.
local function raise(con, errdesc, raised)
   session.settle(con.link)
   local where = engine.where()
   if raised == nil then
      local place = where:match("^\n  ([^\n]-:%d+)")
      raised = string.format("%sSQL error, errno = %d, state = '%s': %s", place and place .. ": " or "",
         errdesc.sql_errno, errdesc.sql_state, errdesc.sql_errmsg)
   end
   con.link.failure = { raised = raised, words = tostring(errdesc) .. where }
   error(raised, 0)
end

-- Raises the last error of a connection: a table when the event is to be begun again, else a text.
local function raise_error(con, query)
   local errdesc = setmetatable({
      connection = con,
      query = query,
      sql_errno = con.sql_errno,
      sql_state = con.sql_state,
      sql_errmsg = con.sql_errmsg,
   }, description)
   local hook = con.sysbench.hooks.sql_error_ignorable
   local is_ignored = query ~= BULK and (con.error == IGNORABLE or (type(hook) == "function" and hook(errdesc)))
   if not is_ignored then
      raise(con, errdesc)
   end
   errdesc.errcode = session.RESTART_EVENT
   if con.in_block then
      con.in_block = false
      local code = ask_engine(asks.QUERY, "ROLLBACK")
      random.use(con.generator)
      if code ~= codes.ANSWERED and code ~= codes.REFUSED then
         interrupt(con.link, code)
      end
   end
   raise(con, errdesc, errdesc)
end

-- Has the engine change the client's connections.
local function change(con, op, number)
   local code, _, why = ask_engine(op, number)
   random.use(con.generator)
   if code == codes.REFUSED then
      error("could not connect: " .. why, 0)
   elseif code ~= codes.ANSWERED then
      interrupt(con.link, code)
   end
end

-- Makes a connection the one that statements go to.
local function use(con)
   local link = con.link
   if link.current ~= con.number then
      change(con, asks.USE, con.number)
      link.current = con.number
   end
end

-- Sends, waits and gives rows and fields of the result.
local function ask(con, query, op, a, b, c, d, e, f)
   local link = con.link
   if link.interrupted then
      error(INTERRUPTED, 0)
   end
   if link.current ~= con.number then
      use(con)
   end
   if con.error ~= NONE then
      clear_error(con)
   end
   local code, rows, fields, values = ask_engine(op, a, b, c, d, e, f)
   random.use(con.generator)
   if code == codes.REFUSED then
      -- the SQLSTATE, the message, and whether a block is open
      keep_error(con, rows, fields, values)
      raise_error(con, query)
   elseif code ~= codes.ANSWERED then
      interrupt(link, code)
   end
   if fields == nil then
      return NOTHING
   end
   local result = con.result
   result.nrows, result.nfields, result.row, result.at, result.values = rows, fields, 0, 1, values
   return result
end

-- Results: the rows of the last statement of a connection, as in sysbench.

local result_methods = {}
result_methods.__index = result_methods

-- The row that begins at byte `at` of the server's rows, and where the next one begins: the number of
-- columns in two bytes, and for each of them its length in four, the first of which is 255 for NULL, and
-- its text.
local function row_at(values, at)
   local high, low = byte(values, at, at + 1)
   local count = high * 256 + low
   local row = new_table(count, 0)
   at = at + 2
   for column = 1, count do
      local b1, b2, b3, b4 = byte(values, at, at + 3)
      at = at + 4
      if b1 < 128 then
         local after = at + ((b1 * 256 + b2) * 256 + b3) * 256 + b4
         row[column] = sub(values, at, after - 1)
         at = after
      end
   end
   return row, at
end

function result_methods:fetch_row()
   if self.row >= self.nrows then
      return nil
   end
   local values = self.values
   if values == nil or self.at > #values then
      error("the rows of this result are not there any more", 2)
   end
   local row
   row, self.at = row_at(values, self.at)
   self.row = self.row + 1
   return row
end

function result_methods:free()
   self.nrows, self.values = 0, nil
   return true
end

function result_methods.__tostring()
   return "<sql_result>"
end

-- Statements. There may be very many, a set for each client, so they are arrays: a table with names
-- takes three times the memory.

local CON, QUERY, NUMBER, COUNT, IS_CLOSED = 1, 2, 3, 4, 5
-- The first parameter is behind it.
local PARAMS = 5

local statement_methods = {}
statement_methods.__index = statement_methods

function statement_methods:bind_create(kind, most)
   return parameters.new(kind, most)
end

-- Prepares it, now that the types of its parameters are known. One that the server refuses is prepared
-- again with the next execution.
local function make(statement)
   local types = {}
   for at = 1, statement[COUNT] do
      types[at] = statement[PARAMS + at][KIND].oid
   end
   local con, query = statement[CON], statement[QUERY]
   local number = engine.statement(query, types)
   statement[NUMBER] = false
   ask(con, query, asks.PREPARE, number)
   statement[NUMBER] = number
   con.prepared[number + 1] = query
end

function statement_methods:bind_param(...)
   local count = select("#", ...)
   if count == 0 then
      return nil
   end
   for at = 1, count do
      local param = select(at, ...)
      if not parameters.is_one(param) then
         error("parameter " .. at .. " was not made by bind_create()", 2)
      end
      self[PARAMS + at] = param
   end
   self[COUNT] = count
   make(self)
   return 0
end

function statement_methods:execute()
   if not self[NUMBER] then
      if self[IS_CLOSED] then
         error("the statement is closed", 2)
      end
      make(self)
   end
   local con, number, count = self[CON], self[NUMBER], self[COUNT]
   if count == 0 then
      return ask(con, PREPARED, asks.EXECUTE, number, 0)
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
      return ask(con, PREPARED, asks.EXECUTE_MANY, number, templates, count, values)
   end
   local p1, p2, p3, p4 = self[PARAMS + 1], self[PARAMS + 2], self[PARAMS + 3], self[PARAMS + 4]
   return ask(con, PREPARED, asks.EXECUTE, number, templates,
      p1[VALUE], p2 and p2[VALUE], p3 and p3[VALUE], p4 and p4[VALUE])
end

-- The session keeps it: there may be many clients that close many statements at the end of a load,
-- and one that is prepared again is found there.
function statement_methods:close()
   self[NUMBER], self[IS_CLOSED] = false, true
   return 0
end

statement_methods.free = statement_methods.close

-- Of several statements in one text the last one's result counts, and there is no other.
function statement_methods:next_result()
   return self[CON]:next_result()
end

function statement_methods.__tostring()
   return "<sql_statement>"
end

-- Connections

-- PostgreSQL has no error numbers.
local connection_methods = { sql_errno = 0 }
connection_methods.__index = connection_methods

function connection_methods.__tostring()
   return "<sql_connection>"
end

local function check_open(con)
   if not con.is_open then
      error("the connection is closed", 3)
   end
end

-- Gives `result` when there is one or nothing failed; else raises the connection's last error.
function connection_methods:check_error(result, query)
   if result ~= nil or self.error == NONE then
      return result
   end
   raise_error(self, query)
end

function connection_methods:query(query)
   check_open(self)
   if type(query) ~= "string" then
      error("a query is a string, not a " .. type(query), 2)
   end
   return ask(self, query, asks.QUERY, query)
end

-- Of several statements in one text the last one's result counts, as in sysbench's driver.
function connection_methods:more_results()
   return false
end

function connection_methods:next_result()
   self.result:free()
   clear_error(self)
   return nil
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
   local statement = setmetatable({ self, query, false, 0, false }, statement_methods)
   if not query:find("?", 1, true) then
      -- there are no parameters whose types it waits for
      make(statement)
   end
   return statement
end

function connection_methods:disconnect()
   if not self.is_open then
      return true
   end
   self.is_open = false
   self.was_used = true
   self.prepared = {}
   local link = self.link
   if self.number > 0 then
      use(link.all[0])
      change(self, asks.CLOSE, self.number)
      link.all[self.number] = nil
   end
   return true
end

connection_methods.free = connection_methods.disconnect

-- A new connection in place of this one: nothing is prepared in it.
local function replace(con, counts)
   use(con)
   con.prepared = {}
   con.result:free()
   change(con, asks.REPLACE, counts)
end

function connection_methods:reconnect()
   check_open(self)
   replace(self, true)
   return true
end

function connection_methods:bulk_insert_init(query)
   self.bulk = { head = query, bytes = #query, rows = {} }
   return true
end

local function flush(con)
   local bulk = con.bulk
   if #bulk.rows > 0 then
      check_open(con)
      local query = bulk.head .. " " .. concat(bulk.rows, ",")
      bulk.rows, bulk.bytes = {}, #bulk.head
      ask(con, BULK, asks.QUERY, query)
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
   return true
end

function connection_methods:bulk_insert_done()
   if self.bulk then
      flush(self)
      self.bulk = nil
   end
   return true
end

-- Drivers: there is one.

local driver_methods = {}
driver_methods.__index = driver_methods

function driver_methods.name()
   return "pgsql"
end

function driver_methods.__tostring()
   return "<sql_driver>"
end

-- A connection in addition to those that the client has.
local function open_another(first)
   local link = first.link
   if engine.per_transaction then
      refuse(link, "with a connection for each transaction (-C) a client has one: disconnect() comes before another connect()")
   end
   local number = 1
   while link.all[number] do
      number = number + 1
   end
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
      error = NONE,
      -- Texts of what is prepared, by number.
      prepared = {},
      result = setmetatable({ nrows = 0, nfields = 0, row = 0, at = 1 }, result_methods),
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
   }
end

-- Prepares again what the session before had prepared.
function session.restore(link)
   local con = link.all[link.current]
   for number, query in pairs(con.prepared) do
      ask(con, query, asks.PREPARE, number - 1)
   end
end

-- Waits as C's functions do, without keeping the thread's other clients waiting.
function session.sleep(link, seconds)
   if link.interrupted then
      error(INTERRUPTED, 0)
   end
   local generator = random.client().generator
   local code = ask_engine(asks.SLEEP, seconds)
   random.use(generator)
   if code ~= codes.ANSWERED then
      interrupt(link, code)
   end
end

return session
