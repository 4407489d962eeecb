-- What a sandboxed script has of LuaJIT's ffi: numbers of C's types, structures of such numbers, and buffers of
-- characters, whose bounds are checked. There are no pointers, and of C's functions only those that sysbench has.
local ffi, refused, refusal = ...

local error, type, tonumber, tostring, ipairs, unpack = error, type, tonumber, tostring, ipairs, unpack
local setmetatable, floor, concat = setmetatable, math.floor, table.concat
local gsub, gmatch, match, byte, char, sub = string.gsub, string.gmatch, string.match, string.byte, string.char, string.sub
local cast, new, typeof, istype, sizeof = ffi.cast, ffi.new, ffi.typeof, ffi.istype, ffi.sizeof

local WHY = "a script has numbers of C's types, structures of numbers and buffers of characters"
local MOST_BYTES = 16777216

-- Names of number types, as ffi has them.
local numbers = {}
for _, name in ipairs({
   "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "unsigned int",
   "long", "unsigned long", "long long", "unsigned long long", "float", "double",
   "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "size_t", "ssize_t",
}) do
   numbers[name] = typeof(name)
end
local one_byte = { char = true, ["signed char"] = true, ["unsigned char"] = true, int8_t = true, uint8_t = true }

-- Structures that the script declares, by `struct NAME` and by the names of typedefs.
local structures = {}

-- Buffers: their bytes from 0 on.
local bytes_of = setmetatable({}, { __mode = "k" })
local sizes = setmetatable({}, { __mode = "k" })

local buffer_methods = {
   __metatable = "ffi",
   __tostring = function(buffer)
      return "cdata<char [" .. sizes[buffer] .. "]>"
   end,
   __index = function(buffer, at)
      at = tonumber(at)
      if at == nil or at < 0 or at >= sizes[buffer] then
         error("index outside of a buffer of " .. sizes[buffer] .. " characters", 2)
      end
      return bytes_of[buffer][floor(at)] or 0
   end,
   __newindex = function(buffer, at, value)
      at, value = tonumber(at), tonumber(value)
      if at == nil or at < 0 or at >= sizes[buffer] or value == nil then
         error("a buffer of " .. sizes[buffer] .. " characters has a number at each index below that", 2)
      end
      bytes_of[buffer][floor(at)] = floor(value) % 256
   end,
}

local function buffer_of(size)
   size = tonumber(size)
   if size == nil or not (size >= 0 and size <= MOST_BYTES) then
      error("a buffer has at most " .. MOST_BYTES .. " characters", 3)
   end
   local buffer = setmetatable({}, buffer_methods)
   bytes_of[buffer], sizes[buffer] = {}, floor(size)
   return buffer
end

local function words_of(kind)
   return (gsub(gsub(gsub(kind, "%f[%w_]const%f[^%w_]", " "), "%s+", " "), "^ ?(.-) ?$", "%1"))
end

-- The type of ffi's that `kind` means, which is a name, a type or a value. All values of ffi's that a script can
-- have are safe, so their types are.
local function type_of(what, kind)
   if type(kind) == "cdata" then
      return typeof(kind)
   end
   local found = type(kind) == "string" and words_of(kind)
   found = found and (numbers[found] or structures[found])
   if not found then
      error(refusal(what .. '("' .. tostring(kind) .. '")', WHY), 0)
   end
   return found
end

local safe = { os = ffi.os, arch = ffi.arch }

function safe.cast(kind, value)
   local to = type_of("ffi.cast", kind)
   if type(value) ~= "number" and type(value) ~= "boolean" and (type(value) ~= "cdata" or tonumber(value) == nil) then
      error(refusal("ffi.cast of a " .. type(value), WHY), 0)
   end
   return cast(to, value)
end

function safe.new(kind, ...)
   if type(kind) == "string" then
      local item, size = match(words_of(kind), "^(.-) ?%[ ?(%??%d*) ?%]$")
      if item and one_byte[item] then
         local first, second = ...
         local text = second
         if size ~= "?" then
            first, text = size, first
         end
         local buffer = buffer_of(first)
         if type(text) == "string" then
            safe.copy(buffer, sub(text, 1, sizes[buffer]), #text < sizes[buffer] and #text or sizes[buffer])
         end
         return buffer
      end
   end
   return new(type_of("ffi.new", kind), ...)
end

function safe.typeof(kind)
   return type_of("ffi.typeof", kind)
end

function safe.istype(kind, value)
   return type(value) == "cdata" and istype(type_of("ffi.istype", kind), value)
end

function safe.sizeof(kind)
   return sizes[kind] or sizeof(type_of("ffi.sizeof", kind))
end

-- The text in a buffer: so many characters, else up to the first zero.
function safe.string(value, length)
   length = length and tonumber(length)
   if type(value) == "string" then
      return length and sub(value, 1, length) or value
   end
   local bytes = bytes_of[value]
   if bytes == nil then
      error(refusal("ffi.string of a " .. type(value), WHY), 0)
   elseif length and (length < 0 or length > sizes[value]) then
      error("the buffer has " .. sizes[value] .. " characters", 2)
   end
   local made = {}
   for at = 0, (length or sizes[value]) - 1 do
      local code = bytes[at] or 0
      if code == 0 and not length then
         break
      end
      made[#made + 1] = char(code)
   end
   return concat(made)
end

-- With no length a text comes with the zero at its end, as far as there is room in C's view.
function safe.copy(buffer, text, length)
   local bytes = bytes_of[buffer]
   if bytes == nil or type(text) ~= "string" then
      error(refusal("ffi.copy", WHY), 0)
   end
   local count = length and tonumber(length) or #text + 1
   if not (count >= 0 and count <= sizes[buffer] and count <= #text + 1) then
      error("the buffer has " .. sizes[buffer] .. " characters, and the text " .. #text, 2)
   end
   for at = 1, count do
      bytes[at - 1] = byte(text, at) or 0
   end
end

-- The structure with these fields; nil when one of them is not a number.
local function structure_of(body)
   local text, kinds = {}, {}
   for field in gmatch((gsub(body, "%s+$", "")), "[^;]+") do
      local first, others = match(words_of(field), "^([^,]*)(.*)$")
      local kind, name = match(first, "^(.*[%w_]) ([%a_][%w_]*) ?$")
      kind = kind and numbers[words_of(kind)]
      if not kind then
         return nil
      end
      for each in gmatch(name .. others, "[^,]+") do
         local plain = match(each, "^ ?([%a_][%w_]*) ?$")
         if not plain then
            return nil
         end
         text[#text + 1], kinds[#kinds + 1] = "$ " .. plain .. ";", kind
      end
   end
   return #text > 0 and typeof("struct { " .. concat(text, " ") .. " }", unpack(kinds)) or nil
end

-- Takes the names that typedefs in a declaration give to numbers and structures that are known.
local function take_aliases(text)
   for old, alias in gmatch(text, "typedef%s+([%w_%s]-)%s+([%a_][%w_]*)%s*;") do
      numbers[alias] = numbers[alias] or numbers[words_of(old)]
      structures[alias] = structures[alias] or structures[words_of(old)]
   end
end

local declared = {}

-- Takes from declarations the structures and the names of numbers; functions are those in ffi.C.
function safe.cdef(text)
   if type(text) ~= "string" then
      error("bad argument #1 to 'cdef' (string expected, got " .. type(text) .. ")", 2)
   elseif declared[text] then
      return
   end
   declared[text] = true
   text = gsub(gsub(text, "/%*.-%*/", " "), "//[^\n]*", " ")
   -- structures have fields of these types
   take_aliases(text)
   for name, body, alias in gmatch(text, "struct%s*([%w_]*)%s*(%b{})%s*([%w_]*)") do
      local made = structure_of(sub(body, 2, -2))
      if made and name ~= "" then
         structures["struct " .. name] = made
      end
      if made and alias ~= "" then
         structures[alias] = made
      end
   end
   -- and other names follow a structure
   take_aliases(text)
end

safe.C = setmetatable({}, {
   __index = function(_, name)
      error(refusal("ffi.C." .. tostring(name), "of C's functions a script has sysbench's only"), 0)
   end,
})

return setmetatable(safe, {
   __index = function(_, name)
      return refused("ffi." .. tostring(name), WHY)
   end,
})
