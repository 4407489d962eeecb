-- each event ignores an error of the server's
function thread_init() con = sysbench.sql.driver():connect() end
function event() pcall(function() con:query("INSERT INTO nowhere VALUES (1)") end) end
