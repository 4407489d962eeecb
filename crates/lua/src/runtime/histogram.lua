-- sysbench.histogram: counts of values in slots whose bounds grow by one factor.
-- `write` prints text.
local write = ...

local floor, log, exp, rep = math.floor, math.log, math.exp, string.rep

local WIDTH = 40
local HEADING = "       value  ------------- distribution ------------- count\n"
local LINE = "%12.3f |%-" .. WIDTH .. "s %d\n"

local methods = {}
methods.__index = methods
methods.__tostring = function()
   return "<sb_histogram>"
end

-- Values outside of the range count in the first or the last slot.
function methods:update(value)
   local at = floor((log(value) - self.offset) * self.factor + 0.5)
   -- the logarithm of a negative number is no number
   if not (at > 0) then
      at = 0
   elseif at >= self.size then
      at = self.size - 1
   end
   self[at] = (self[at] or 0) + 1
end

-- One line for each slot that has values; nothing without any.
function methods:print()
   local most = 0
   for at = 0, self.size - 1 do
      most = math.max(most, self[at] or 0)
   end
   if most == 0 then
      return
   end
   write(HEADING)
   for at = 0, self.size - 1 do
      local count = self[at]
      if count then
         local bar = rep("*", floor(count * WIDTH / most + 0.5))
         write(LINE:format(exp(at / self.factor + self.offset), bar, count))
      end
   end
end

local api = {}

-- `size` slots, the first for values about `least`, the last for those about `most`.
function api.new(size, least, most)
   size = floor(size)
   if size < 2 or least <= 0 or most <= least then
      error("a histogram has at least 2 slots, and a range from above 0 upwards", 2)
   end
   local offset = log(least)
   return setmetatable({ size = size, offset = offset, factor = (size - 1) / (log(most) - offset) }, methods)
end

return api
