-- LuaJIT's ffi as scripts have it in sysbench: with the functions of C that sysbench exports, and with
-- declarations that each client of the state may make anew.
local engine, random, session, events, histogram = ...

local ffi = engine.ffi

-- As in sysbench's sb_counter_type, which scripts name in declarations of their own.
ffi.cdef([[typedef enum { SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR,
   SB_CNT_RECONNECT, SB_CNT_MAX } sb_counter_type;]])

local api = random.api

-- Text of a script's, which may be a pointer to it.
local function text_of(value)
   return type(value) == "string" and value or ffi.string(value)
end

local own = {
   SB_CNT_EVENT = 3,
   sb_counter_inc = function(_, kind)
      engine.count(tonumber(kind), 1)
   end,
   sb_counter_add = function(_, kind, count)
      engine.count(tonumber(kind), tonumber(count))
   end,
   sb_more_events = events.more,
   sb_event_start = events.start,
   sb_event_stop = events.stop,
   sb_rand_unique = api.unique,
   sb_rand_uniform_double = api.uniform_double,
   sb_rand_uniform_uint64 = api.uniform_uint64,
   sb_rand_str = function(template, buffer)
      local made = api.string(text_of(template))
      ffi.copy(buffer, made, #made)
   end,
   sb_rand_varstr = function(buffer, least, most)
      if most == 0 then
         return 0
      end
      local made = api.varstring(least > most and 1 or least, most)
      ffi.copy(buffer, made, #made)
      return #made
   end,
   sb_histogram_new = histogram.new,
   sb_histogram_delete = function() end,
   sb_histogram_update = function(made, value)
      made:update(value)
   end,
   sb_histogram_print = function(made)
      made:print()
   end,
   sb_print_test_options = function()
      random.client().sysbench.cmdline.print_test_options()
   end,
}
for _, name in ipairs({ "default", "uniform", "gaussian", "special", "pareto", "zipfian" }) do
   own["sb_rand_" .. name] = api[name]
end
for at, name in ipairs({ "OTHER", "READ", "WRITE", "TRX", "ERROR", "RECONNECT" }) do
   own["SB_CNT_" .. name] = at - 1
end

-- Waits: in C they would keep the thread's other clients waiting, too. `seconds` reads the arguments.
local function pause(name, seconds)
   own[name] = function(...)
      local self, length = random.client(), seconds(...)
      if not self.is_served or length == nil then
         return ffi.C[name](...)
      end
      session.sleep(self.link, length)
      return 0
   end
end

pause("usleep", function(microseconds)
   return tonumber(microseconds) / 1e6
end)
pause("sleep", tonumber)
pause("poll", function(files, _, milliseconds)
   milliseconds = tonumber(milliseconds)
   return files == nil and milliseconds >= 0 and milliseconds / 1e3 or nil
end)
pause("nanosleep", function(length)
   length = ffi.cast("const int64_t *", length)
   return tonumber(length[0]) + tonumber(length[1]) / 1e9
end)

local declared = {}

local function cdef(text, ...)
   if select("#", ...) > 0 or not declared[text] then
      ffi.cdef(text, ...)
      declared[text] = true
   end
end

-- Each client may give a type its methods; those of the state's first one count.
local types = {}

local function metatype(kind, methods)
   local made = ffi.typeof(kind)
   local key = tonumber(made)
   types[key] = types[key] or ffi.metatype(made, methods)
   return types[key]
end

return setmetatable({ C = setmetatable(own, { __index = ffi.C }), cdef = cdef, metatype = metatype }, { __index = ffi })
