-- Takes from Lua's libraries what reaches past the script: programs, files, C, the memory of the process.
-- The library tables themselves are changed, because a script has many names for them: _G, package.loaded,
-- getfenv() of any function of the runtime. What the runtime needs itself, it has taken before.
-- The allocator, the bytecode loader and LuaJIT's ffi trust their caller: no pointer and no bytecode may
-- come into a script's hands.
local engine, C_types = ...

local error, load, type, tostring, pairs, gsub = error, load, type, tostring, pairs, string.gsub
local builtin_require = require
local ffi = require("ffi")

local HINT = "\n  hint: if you trust the script, allow it with --allow-lua-system, "
   .. "in a plan with allow_lua_system = true in [workload]"

-- The words of a refusal; the runtime adds the place in the script.
local function refusal(what, why)
   return what .. " is refused: " .. why .. HINT
end

-- A function that only says so.
local function refused(what, why)
   local words = refusal(what, why)
   return function()
      error(words, 0)
   end
end

-- os

for name, why in pairs({
   execute = "a script starts no programs",
   exit = "a script does not end the process; error() ends its client",
   remove = "a script changes no files",
   rename = "a script changes no files",
   tmpname = "a script writes no files",
   setlocale = "the locale is that of all threads",
}) do
   os[name] = refused("os." .. name, why)
end

-- io

local open, lines, input, output = io.open, io.lines, io.input, io.output

-- Where the file is that the script names; nil when there is none. Raises an error for the caller of the
-- function `name` when the file is not the script's.
local function place_of(name, path)
   if type(path) == "number" then
      path = tostring(path)
   elseif type(path) ~= "string" then
      error("bad argument #1 to '" .. name .. "' (string expected, got " .. type(path) .. ")", 3)
   end
   local place, is_foreign = engine.data_file(path)
   if is_foreign then
      error(refusal(name .. '("' .. path .. '")', "a script reads files in its own folder and below, not by '..'"), 0)
   end
   return place, path .. ": No such file or directory"
end

function io.open(path, mode)
   if mode ~= nil and mode ~= "r" and mode ~= "rb" then
      error(refusal("io.open with mode '" .. tostring(mode) .. "'", "a script writes no files"), 0)
   end
   local place, missing = place_of("io.open", path)
   if place == nil then
      return nil, missing, 2
   end
   return open(place, mode)
end

function io.lines(path, ...)
   if path == nil then
      return lines()
   end
   local place, missing = place_of("io.lines", path)
   if place == nil then
      error(missing, 2)
   end
   return lines(place, ...)
end

function io.input(file)
   if file == nil then
      return input()
   elseif type(file) == "userdata" then
      return input(file)
   end
   local place, missing = place_of("io.input", file)
   if place == nil then
      error(missing, 2)
   end
   return input(place)
end

function io.output(file)
   if file == nil then
      return output()
   elseif type(file) == "userdata" then
      return output(file)
   end
   error(refusal("io.output of a file", "a script writes no files"), 0)
end

io.popen = refused("io.popen", "a script starts no programs")
io.tmpfile = refused("io.tmpfile", "a script writes no files")

-- Code: text only, because LuaJIT does not verify bytecode.

local WRONG_MODE = "attempt to load chunk with wrong mode"

local function load_text(name)
   return function(chunk, chunk_name, _, env)
      local made, why = load(chunk, chunk_name, "t", env)
      if made == nil and why == WRONG_MODE then
         why = refusal(name .. " of bytecode", "a script loads the text of programs only")
      end
      return made, why
   end
end

_G.load = load_text("load")
_G.loadstring = load_text("loadstring")

local function text_of(name, path)
   if type(path) ~= "string" then
      error(refusal(name .. " of standard input", "a script loads files"), 0)
   end
   local text, is_foreign = engine.code_file(path)
   if is_foreign then
      local why = "a script loads files in its own folder and below, in those of LUA_PATH, and sysbench's"
      error(refusal(name .. '("' .. path .. '")', why), 0)
   elseif text == nil then
      return nil, "cannot open " .. path
   end
   -- the first line may name an interpreter
   return (gsub(text, "^#[^\n]*", "", 1)), "@" .. path
end

local function load_file(name, path, env)
   local text, shown = text_of(name, path)
   if text == nil then
      return nil, shown
   end
   local made, why = load(text, shown, "t", env)
   if made == nil and why == WRONG_MODE then
      why = refusal(name .. " of bytecode", "a script loads the text of programs only")
   end
   return made, why
end

engine.load_file = load_file

function _G.loadfile(path, _, env)
   return load_file("loadfile", path, env)
end

-- Scripts have the runtime's own in place of this one.
function _G.dofile(path)
   local made, why = load_file("dofile", path)
   if made == nil then
      error(why, 2)
   end
   return made()
end

-- What package.path leads to; `engine.file` compiles it.
local file = engine.file
function engine.file(path)
   local _, is_foreign = engine.code_file(path)
   if is_foreign then
      error(refusal('require of "' .. path .. '"', "it is neither next to the script nor below it"), 0)
   end
   return file(path)
end

local KEPT = {
   _G = true, string = true, table = true, math = true, coroutine = true, os = true, io = true, bit = true,
   jit = true, ["jit.opt"] = true, package = true,
}
local own = { ["table.new"] = builtin_require("table.new"), ["table.clear"] = builtin_require("table.clear") }
local REFUSED = { ["string.buffer"] = true, ["jit.util"] = true, ["jit.profile"] = true, debug = true }

local loaded, preload = package.loaded, package.preload
local names = {}
for name in pairs(loaded) do
   names[#names + 1] = name
end
for _, name in pairs(names) do
   if not KEPT[name] then
      loaded[name] = nil
   end
end
names = {}
for name in pairs(preload) do
   names[#names + 1] = name
end
for _, name in pairs(names) do
   preload[name] = nil
end
string.buffer, jit.util, jit.profile = nil, nil, nil
jit.attach = refused("jit.attach", "the compiler's events are its own")
package.loaders = {}
package.cpath = ""
package.loadlib = refused("package.loadlib", "a script loads no code of C")
package.searchpath = refused("package.searchpath", "a script looks for modules with require only")

-- For modules that no file is found for.
function _G.require(name)
   local known = loaded[name] or own[name]
   if known ~= nil then
      return known
   end
   local make = preload[name]
   if type(make) == "function" then
      known = make(name)
      if known == nil then
         known = true
      end
      loaded[name] = known
      return known
   elseif REFUSED[name] then
      error(refusal('require("' .. name .. '")', "the library reaches past Lua"), 0)
   end
   error("module '" .. tostring(name) .. "' is not found next to the script, in the folders of LUA_PATH, or among "
      .. "sysbench's; modules written in C are refused" .. HINT, 2)
end

-- coroutine: what a client's own coroutine yields, the engine takes for a request of the runtime.

local yield, running = coroutine.yield, coroutine.running
local clients = setmetatable({}, { __mode = "k" })
engine.clients, engine.yield = clients, yield

function coroutine.yield(...)
   if clients[running()] then
      error("coroutine.yield is called outside of the coroutines that the script made", 2)
   end
   return yield(...)
end

-- debug: what names places, and gives no function and no variable away.

local getinfo, traceback = debug.getinfo, debug.traceback

local function place_in(first, second, third)
   local is_thread = type(first) == "thread"
   local what = is_thread and third or not is_thread and second or nil
   what = type(what) == "string" and gsub(what, "[^nSlu]", "") or "nSlu"
   local info
   if is_thread then
      info = getinfo(first, second, what)
   else
      -- one level is this function
      info = getinfo(type(first) == "number" and first > 0 and first + 1 or first, what)
   end
   return info
end

debug = setmetatable({ traceback = traceback, getinfo = place_in }, {
   __index = function(_, name)
      return refused("debug." .. tostring(name), "it reaches into the program")
   end,
})
loaded.debug = debug

-- ffi

engine.ffi = C_types(ffi, refused, refusal)
_G.ffi = nil
