-- statements without rows give what is true
function prepare()
  local con = sysbench.sql.driver():connect()
  assert(con:query("CREATE TABLE IF NOT EXISTS t1 (a int)"))
  if not con:query("INSERT INTO t1 VALUES (1)") then error("falsy") end
end
function event() end
function cleanup() sysbench.sql.driver():connect():query("DROP TABLE t1") end
