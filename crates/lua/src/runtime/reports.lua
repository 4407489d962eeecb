-- Reports by the script: the hooks that get a table of figures, and sysbench's own reports, which
-- hooks may be set to or may call. Times are in seconds.
local engine, shared = ...

local reports = {}

-- What all three say, in their order.
local function figures(stat)
   local seconds = stat.time_interval
   return stat.time_total, stat.threads_running, stat.events / seconds,
      (stat.reads + stat.writes + stat.other) / seconds,
      stat.reads / seconds, stat.writes / seconds, stat.other / seconds,
      stat.latency_pct * 1000, stat.errors / seconds, stat.reconnects / seconds
end

local CSV = "%.0f,%u" .. string.rep(",%4.2f", 8)
local LINE = "[ %.0fs ] thds: %u tps: %4.2f qps: %4.2f (r/w/o: %4.2f/%4.2f/%4.2f) "
   .. "lat (ms,PERCENTILE%%): %4.2f err/s %4.2f reconn/s: %4.2f"
local OBJECT = [[
  {
    "time": %4.0f,
    "threads": %u,
    "tps": %4.2f,
    "qps": {
      "total": %4.2f,
      "reads": %4.2f,
      "writes": %4.2f,
      "other": %4.2f
    },
    "latency": %4.2f,
    "errors": %4.2f,
    "reconnects": %4.2f
  }]]

-- sysbench's own reports, by name.
reports.own = {}

function reports.own.report_csv(stat)
   shared.print(CSV:format(figures(stat)))
end

function reports.own.report_default(stat)
   shared.print(LINE:gsub("PERCENTILE", engine.opt.percentile):format(figures(stat)))
end

local is_open = false
function reports.own.report_json(stat)
   io.write(is_open and ",\n" or "[\n", OBJECT:format(figures(stat)))
   is_open = true
end

-- No report comes any more: the array has its end.
function reports.finish()
   if is_open then
      is_open = false
      io.write("\n]\n")
   end
   io.flush()
end

-- Calls a hook, if there is one.
function reports.call(sysbench, name, stat)
   local hook = sysbench.hooks[name]
   if type(hook) == "function" then
      hook(stat)
      io.flush()
   end
end

return reports
