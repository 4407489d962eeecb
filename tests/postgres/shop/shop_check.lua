-- Whether the tables agree; found by a path of its own.

require("shop_common")

function check(con)
   for set = 1, sysbench.opt.tables do
      local rs = con:query(([[
         SELECT s_id, s_next_order - 1, (SELECT count(*) FROM orders%d WHERE o_shop = s_id)
         FROM shop%d ORDER BY s_id]]):format(set, set))
      for at = 1, rs.nrows do
         local row = rs:fetch_row()
         local verdict = tonumber(row[2]) == tonumber(row[3]) and "PASSED" or "FAILED"
         print(string.format("check of set %d, shop %d %s", set, tonumber(row[1]), verdict))
      end
   end
end
