-- LuaJIT's ffi as scripts have it in sysbench: with its counters, and with declarations that each
-- client of the state may make anew.
local engine = ...

local ffi = require("ffi")

-- As in sysbench's sb_counter_type, which scripts name in declarations of their own.
ffi.cdef([[typedef enum { SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_ERROR,
   SB_CNT_RECONNECT, SB_CNT_MAX } sb_counter_type;]])

local own = {
   SB_CNT_EVENT = 3,
   sb_counter_inc = function(_, kind)
      engine.count(tonumber(kind))
   end,
}
for _, name in ipairs({ "OTHER", "READ", "WRITE", "TRX", "ERROR", "RECONNECT" }) do
   own["SB_CNT_" .. name] = tonumber(ffi.C["SB_CNT_" .. name])
end

local declared = {}

local function cdef(text, ...)
   if select("#", ...) > 0 or not declared[text] then
      ffi.cdef(text, ...)
      declared[text] = true
   end
end

return setmetatable({ C = setmetatable(own, { __index = ffi.C }), cdef = cdef }, { __index = ffi })
