-- What all parts of the workload need.

ffi = require("ffi")

ffi.cdef[[
void sb_counter_inc(int, sb_counter_type);
typedef uint32_t useconds_t;
int usleep(useconds_t useconds);
struct shop_basket { int articles; };
]]

function init()
   assert(event ~= nil, "this is a part of another script")
end

if sysbench.cmdline.command == nil then
   error("Command is required. Supported commands: prepare, run, cleanup, check, help")
end

ARTICLES = 300

sysbench.cmdline.options = {
   scale = { "Shops", 3 },
   tables = { "Sets of tables", 1 },
   trx_level = { "Isolation level (RC, RR or SER)", "RR" },
   use_fk = { "Use foreign keys", 1 },
}

local levels = { RC = "READ COMMITTED", RR = "REPEATABLE READ", SER = "SERIALIZABLE" }

function connected()
   local drv = sysbench.sql.driver()
   local con = drv:connect()
   con:query("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL " .. levels[sysbench.opt.trx_level])
   return drv, con
end

local function create(con, set)
   con:query(string.format([[
      CREATE TABLE shop%d (
         s_id int PRIMARY KEY,
         s_next_order int NOT NULL DEFAULT 1 CHECK (s_next_order > 0)
      )]], set))
   con:query(string.format([[CREATE TABLE article%d (a_id int, a_shop int, a_price numeric, a_name text)]], set))
   con:query(([[CREATE TABLE orders%d (o_shop int, o_id int, o_thread int, PRIMARY KEY (o_shop, o_id))]]):format(set))
   if sysbench.opt.use_fk == 1 then
      con:query(("ALTER TABLE orders%d ADD FOREIGN KEY (o_shop) REFERENCES shop%d (s_id)"):format(set, set))
   end
end

local function fill(con, set, shop)
   con:query(("INSERT INTO shop%d (s_id) VALUES (%d)"):format(set, shop))
   con:bulk_insert_init("INSERT INTO article" .. set .. " (a_id, a_shop, a_price, a_name) VALUES")
   for article = 1, ARTICLES do
      local price = sysbench.rand.uniform_double() * 100 + 1
      local name = sysbench.rand.string("@@@@-####")
      con:bulk_insert_next(string.format("(%d, %d, %f, '%s')", article, shop, price, name))
   end
   con:bulk_insert_done()
end

local function sleep(seconds)
   os.execute("sleep " .. tonumber(seconds))
end

function prepare_all()
   local drv, con = connected()
   for set = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.tables, sysbench.opt.threads do
      create(con, set)
      sleep(0)
      for shop = 1, sysbench.opt.scale do
         fill(con, set, shop)
      end
   end
   print("prepared by " .. drv:name())
end

function cleanup()
   local drv, con = connected()
   for set = 1, sysbench.opt.tables do
      con:query(("DROP TABLE IF EXISTS orders%d, article%d, shop%d"):format(set, set, set))
   end
end

function check_all()
   local drv, con = connected()
   if sysbench.tid == 0 then
      check(con)
   end
end

sysbench.cmdline.commands = {
   prepare = { prepare_all, sysbench.cmdline.PARALLEL_COMMAND },
   check = { check_all, sysbench.cmdline.PARALLEL_COMMAND },
}
