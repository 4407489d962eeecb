-- an event that paces itself through the C library, and would hide a refusal
ffi = require("ffi")
ffi.cdef[[int usleep(unsigned int usec);]]
function thread_init() con = sysbench.sql.driver():connect() end
function event()
  con:query("SELECT 1")
  pcall(function() ffi.C.usleep(50000) end)
end
