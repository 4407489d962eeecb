#!/usr/bin/env sysbench
-- A workload of several files, laid out as third parties lay out theirs.

package.path = sysbench.cmdline.script_path:match("(.*/)") .. "parts/?.lua;" .. package.path

require("shop_common")
require("shop_orders")
dofile(sysbench.cmdline.script_path:match("(.*/)") .. "shop_check.lua")

function thread_init()
   drv, con = connected()
   calls = 0
end

function event()
   calls = calls + 1
   -- every fifth finds no article, the tenth of each client meets an order that is there already
   if calls % 5 == 0 then
      article_of = "missing"
   elseif calls == 10 + 1 then
      article_of = "again"
   else
      article_of = "there"
   end
   local trx = calls % 4 == 0 and "look" or "order"
   _G[trx]()
end

function sysbench.hooks.before_restart_event(err)
   con:query("ROLLBACK")
end

function sysbench.hooks.sql_error_ignorable(err)
   -- a check of the table, which no driver counts as one to go on after
   return err.sql_state == "23514"
end
