-- The transactions; found by package.path.

require("shop_common")

function order()
   local set = sysbench.rand.uniform(1, sysbench.opt.tables)
   local shop = sysbench.rand.uniform(1, sysbench.opt.scale)
   con:query("BEGIN")
   local number = con:query_row(([[
      SELECT s_next_order FROM shop%d
       WHERE s_id = %d FOR UPDATE]]):format(set, shop))
   con:query(("UPDATE shop%d SET s_next_order = %d WHERE s_id = %d"):format(set, number + 1, shop))
   local article = article_of == "missing" and -1 or sysbench.rand.uniform(1, ARTICLES)
   local rs = con:query(("SELECT a_price FROM article%d WHERE a_shop = %d AND a_id = %d"):format(set, shop, article))
   if rs.nrows == 0 then
      ffi.C.sb_counter_inc(sysbench.tid, ffi.C.SB_CNT_ERROR)
      con:query("ROLLBACK")
      return
   end
   local basket = ffi.new("struct shop_basket", 1)
   if article_of == "again" then
      -- the next try does without
      article_of = "there"
      con:query(("UPDATE shop%d SET s_next_order = -%d WHERE s_id = %d"):format(set, basket.articles, shop))
   end
   con:query(("INSERT INTO orders%d VALUES (%d, %d, %d)"):format(set, shop, number, sysbench.tid))
   con:query("COMMIT")
end

function look()
   local count = con:query_row(("SELECT count(*) FROM orders%d"):format(sysbench.rand.uniform(1, sysbench.opt.tables)))
   assert(tonumber(count) >= 0)
end
