-- Rows of table sbtest1 by the indexed column k: at several points, or in several ranges. Every
-- client has a part of the keys to itself.
local select_random = {}

-- `unpack` hands on fewer than 8000 parameters.
local options = {
   points = {
      table_size = { "rows of the table", 10000, least = 1, most = 2147483647 },
      tables = { "number of tables; only the first one is read", 1, least = 1, most = 100000 },
      random_points = { "points of a statement", 10, least = 1, most = 7000 },
   },
   ranges = {
      table_size = { "rows of the table", 10000, least = 1, most = 2147483647 },
      tables = { "number of tables; only the first one is read", 1, least = 1, most = 100000 },
      number_of_ranges = { "ranges of a statement", 10, least = 1, most = 3500 },
      delta = { "from the first to the last key of a range", 5, least = 0, most = 2147483647 },
   },
}

-- The statement of a workload, how many keys are drawn for it, and how many parameters each is.
local shapes = {
   points = function()
      local count = sysbench.opt.random_points
      local list = string.rep("?, ", count - 1) .. "?"
      return "SELECT id, k, c, pad FROM sbtest1 WHERE k IN (" .. list .. ")", count, 1
   end,
   ranges = function()
      local count, one = sysbench.opt.number_of_ranges, "k BETWEEN ? AND ?"
      local list = string.rep(one .. " OR ", count - 1) .. one
      return "SELECT count(k) FROM sbtest1 WHERE " .. list, count, 2
   end,
}

function select_random.run(name)
   sysbench.cmdline.options = options[name]
   local statement, params, count, width, first, last
   function thread_init()
      local con = sysbench.sql.driver():connect()
      local text
      text, count, width = shapes[name]()
      statement, params = con:prepare(text), {}
      for at = 1, count * width do
         params[at] = statement:bind_create(sysbench.sql.type.INT)
      end
      statement:bind_param(unpack(params))
      local part = sysbench.opt.table_size / sysbench.opt.threads
      first, last = part * sysbench.tid, part * (sysbench.tid + 1)
   end
   function event()
      for at = 1, count do
         local key = sysbench.rand.default(first, last)
         params[(at - 1) * width + 1]:set(key)
         if width == 2 then
            params[at * 2]:set(key + sysbench.opt.delta)
         end
      end
      statement:execute()
   end
end

return select_random
