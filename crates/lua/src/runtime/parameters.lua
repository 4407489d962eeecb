-- Parameters of prepared statements. There may be very many, a set for each client, so they are arrays:
-- a table with names takes three times the memory.

local cast = require("ffi").cast

local VALUE, IS_TEMPLATE, KIND = 1, 2, 3

local parameters = { VALUE = VALUE, IS_TEMPLATE = IS_TEMPLATE, KIND = KIND }

-- By name, as scripts know them.
parameters.types = {
   NONE = 0, TINYINT = 1, SMALLINT = 2, INT = 3, BIGINT = 4, FLOAT = 5, DOUBLE = 6,
   TIME = 7, DATE = 8, DATETIME = 9, TIMESTAMP = 10, CHAR = 11, VARCHAR = 12,
}

-- The server's types for those of parameters. As in sysbench whole numbers are bigint, others are
-- double precision and texts are varchar; dates and times, which sysbench refuses, are what they are.
local oids = {
   [1] = 20, [2] = 20, [3] = 20, [4] = 20, [5] = 701, [6] = 701,
   [7] = 1083, [8] = 1082, [9] = 1114, [10] = 1114, [11] = 1043, [12] = 1043,
}
local BIGINT, DOUBLE, VARCHAR = 20, 701, 1043

local parameter_methods = {}
parameter_methods.__index = parameter_methods

-- Kinds of parameters, one table for all that are alike: by type and greatest length.
local kinds = {}

local function kind_of(number, most)
   local key = most and number .. " " .. most or number
   local kind = kinds[key]
   if kind == nil then
      kind = { number = number, oid = oids[number], most = oids[number] == VARCHAR and most or nil }
      kinds[key] = kind
   end
   return kind
end

local function cut(text, most)
   if most and #text > most then
      return text:sub(1, most)
   end
   return text
end

function parameter_methods:set(value)
   local kind = self[KIND]
   local is_of = type(value)
   if is_of == "string" then
      value = cut(value, kind.most)
   elseif is_of == "cdata" then
      -- 64 bits are more than a number of Lua's holds
      value = tostring(cast("int64_t", value)):match("^%-?%d+")
   elseif is_of == "number" and kind.oid == BIGINT and value % 1 ~= 0 then
      value = value < 0 and math.ceil(value) or math.floor(value)
   elseif is_of ~= "number" and is_of ~= "nil" and is_of ~= "boolean" then
      error("a " .. is_of .. " is no value of SQL", 2)
   end
   self[VALUE], self[IS_TEMPLATE] = value, false
end

function parameter_methods:set_rand_str(template)
   local kind = self[KIND]
   if kind.oid ~= VARCHAR then
      error("Unsupported argument type: " .. kind.number, 2)
   end
   self[VALUE], self[IS_TEMPLATE] = cut(template, kind.most), true
end

function parameter_methods.__tostring()
   return "<sql_param>"
end

-- A parameter of a type, whose texts have at most so many bytes.
function parameters.new(kind, most)
   if type(kind) ~= "number" or oids[kind] == nil then
      error("Unsupported argument type: " .. tostring(kind), 3)
   end
   -- one that is never set is 0 or empty, as in sysbench
   local unset = (oids[kind] == BIGINT or oids[kind] == DOUBLE) and 0 or ""
   return setmetatable({ unset, false, kind_of(kind, most) }, parameter_methods)
end

function parameters.is_one(value)
   return getmetatable(value) == parameter_methods
end

return parameters
