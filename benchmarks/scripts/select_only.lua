-- pgbench's select-only for sysbench: one prepared statement, one row by its key

sysbench.cmdline.options = {
   scale = {"Scale of pgbench's tables", 1},
}

local accounts = 100000

function thread_init()
   connection = sysbench.sql.driver():connect()
   statement = connection:prepare("SELECT abalance FROM pgbench_accounts WHERE aid = ?")
   aid = statement:bind_create(sysbench.sql.type.INT)
   statement:bind_param(aid)
end

function event()
   aid:set(sysbench.rand.uniform(1, accounts * sysbench.opt.scale))
   statement:execute()
end

function thread_done()
   statement:close()
   connection:disconnect()
end
