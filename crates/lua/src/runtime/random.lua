-- Random numbers of scripts. Every client has a generator of its own, so that a run with a seed draws
-- the same whatever the order in which clients are served.
-- ... is a table of what the engine gives: options, fill(template, seed), unique().
local engine = ...

local band, bxor, lshift, rol, tobit = bit.band, bit.bxor, bit.lshift, bit.rol, bit.tobit
local rshift = bit.rshift
local floor, ceil, log, exp, tonumber = math.floor, math.ceil, math.log, math.exp, tonumber
local cast = require("ffi").cast

local random = {}

-- The generator of the client that runs.
local state

function random.use(client_state)
   state = client_state
end

-- Whose generator it is.
function random.own(generator, client)
   generator[5] = client
end

-- The client that runs, as client.lua knows it.
function random.client()
   return state[5]
end

local function multiply(x, y)
   local high = lshift(tobit(rshift(x, 16) * band(y, 0xffff)), 16)
   return tobit(tobit(band(x, 0xffff) * y) + high)
end

-- A generator (xoshiro128**, Blackman and Vigna 2018) whose seed is a whole number.
function random.generator(seed)
   -- splitmix32, so that seeds that are close give states that are not
   local x = tobit(seed % 4294967296)
   local function mixed()
      x = tobit(x + 0x9e3779b9)
      local z = multiply(bxor(x, rshift(x, 16)), 0x21f0aaad)
      z = multiply(bxor(z, rshift(z, 15)), 0x735a2d97)
      return bxor(z, rshift(z, 15))
   end
   local high = tobit(floor(seed / 4294967296))
   -- behind them is whose it is
   return { mixed(), mixed(), bxor(mixed(), high), bxor(mixed(), 1), false }
end

-- 32 random bits, as a signed number.
local function bits()
   local s = state
   local s1, s3 = s[2], s[4]
   local result = tobit(rol(tobit(s1 * 5), 7) * 9)
   local t = lshift(s1, 9)
   local s2 = bxor(s[3], s[1])
   s3 = bxor(s3, s1)
   s[2] = bxor(s1, s2)
   s[1] = bxor(s[1], s3)
   s[3] = bxor(s2, t)
   s[4] = rol(s3, 11)
   return result
end

-- A number from 0 up to, and without, 1; 53 bits of it are random.
local function fraction()
   local high = rshift(bits(), 5)
   local low = rshift(bits(), 6)
   return (high * 67108864 + low) / 9007199254740992
end

random.fraction = fraction

local function uniform(a, b)
   return floor(a + fraction() * (b - a + 1))
end

local options = engine.options
local iterations = options.rand_spec_iter
local special_share = options.rand_spec_pct / 100
local special_odds = options.rand_spec_res / 100
local pareto_power = log(options.rand_pareto_h) / log(1 - options.rand_pareto_h)

-- The mean of several uniform ones: a bell that grows narrower with their number.
local function bell()
   local sum = 0
   for _ = 1, iterations do
      sum = sum + fraction()
   end
   return sum / iterations
end

local function gaussian(a, b)
   return floor(a + (b - a + 1) * bell())
end

-- A share of the draws falls evenly on few values about the middle, the rest as a bell. As in
-- sysbench one number decides both, so that of the few those below the middle are fewer, and the
-- bell does not reach the last value.
local function special(a, b)
   local u, width = fraction(), b - a
   if u < 1 - special_odds then
      return floor(a + width * bell())
   end
   local few = width * special_share
   return floor(a + width / 2 - few / 2 + u * (few + 1))
end

local function pareto(a, b)
   return floor(a + (b - a + 1) * fraction() ^ pareto_power)
end

-- Zipf's distribution by rejection-inversion (Hörmann and Derflinger 1996): the integral of x^-e and
-- its inverse, both exact where e is 1.
local exponent = options.rand_zipfian_exp

local function expm1_share(x)
   if math.abs(x) > 1e-8 then
      return (exp(x) - 1) / x
   end
   return 1 + x / 2 * (1 + x / 3)
end

local function log1p_share(x)
   if math.abs(x) > 1e-8 then
      return log(1 + x) / x
   end
   return 1 - x * (0.5 - x / 3)
end

local function integral(x)
   local logarithm = log(x)
   return expm1_share((1 - exponent) * logarithm) * logarithm
end

local function inverse(x)
   local t = x * (1 - exponent)
   if t < -1 then
      t = -1
   end
   return exp(log1p_share(t) * x)
end

local function density(x)
   return exp(-exponent * log(x))
end

local shortcut = exponent > 0 and 2 - inverse(integral(2.5) - density(2)) or 1

local function zipfian(a, b)
   local count = b - a + 1
   -- a range the wrong way round or without an end has no integral, and the search would not end
   if not (count >= 1 and count < math.huge) then
      return a
   end
   local first = integral(1.5) - 1
   local last = integral(count + 0.5)
   while true do
      local u = last + fraction() * (first - last)
      local x = inverse(u)
      local k = floor(x + 0.5)
      if k < 1 then
         k = 1
      elseif k > count then
         k = count
      end
      if k - x <= shortcut or u >= integral(k + 0.5) - density(k) then
         return a + k - 1
      end
   end
end

local by_name = {
   uniform = uniform,
   gaussian = gaussian,
   special = special,
   pareto = pareto,
   zipfian = zipfian,
}

local default = by_name[options.rand_type]

-- A seed for what the engine draws itself.
local function seed()
   return bits() % 4294967296 * 2097152 + rshift(bits(), 11) % 2097152
end

-- 32 random bits, as a number from 0.
function random.bits()
   return bits() % 4294967296
end

-- One that no generator of the load has given yet, between two others; they are looked for.
function random.unique_between(a, b)
   a, b = tonumber(a or 0), tonumber(b or 4294967295)
   local least, most = ceil(a), floor(b)
   -- NaN is in no order, and the search for a number would not end
   if not (least <= most and least <= 4294967295 and most >= 0) then
      error("there is no number of 32 bits from " .. a .. " to " .. b, 2)
   end
   return engine.unique(a, b)
end

local function string_of(template)
   return engine.fill(template, seed())
end

random.seed = seed

-- Bounds are whole numbers, whatever the script computes them from, such as 64-bit numbers of C's.
local function bounded(draw)
   return function(a, b)
      return draw(floor(tonumber(a)), floor(tonumber(b)))
   end
end

-- What scripts see.
random.api = {
   default = bounded(default),
   uniform = bounded(uniform),
   gaussian = bounded(gaussian),
   special = bounded(special),
   pareto = bounded(pareto),
   zipfian = bounded(zipfian),
   string = string_of,
   uniform_double = fraction,
   uniform_uint64 = function()
      return cast("uint64_t", bits() % 4294967296) * 4294967296ULL + bits() % 4294967296
   end,
   -- sysbench's takes no bounds; ours has always kept to those that it is given.
   unique = function(a, b)
      return random.unique_between(a, b)
   end,
   -- Characters from '0' to 'z', of a length between the two.
   varstring = function(least, most)
      if least > most or most <= 0 then
         error("a string is at least 1 long, and at most as long as its greatest length", 2)
      end
      local codes = {}
      for at = 1, uniform(floor(tonumber(least)), floor(tonumber(most))) do
         codes[at] = string.char(uniform(48, 122))
      end
      return table.concat(codes)
   end,
}

return random
