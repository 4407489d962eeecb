-- sysbench.cmdline: what it has besides the client's own fields.
local engine, random, write = ...

local cmdline = {
   ARG_NULL = 0,
   ARG_BOOL = 1,
   ARG_INT = 2,
   ARG_SIZE = 3,
   ARG_DOUBLE = 4,
   ARG_STRING = 5,
   ARG_LIST = 6,
   ARG_FILE = 7,
   ARG_MAX = 8,
   PARALLEL_COMMAND = true,
   argv = engine.argv,
   script_path = engine.script_path,
}

-- What the script declares as command `name`, if it does.
local function entry(name)
   local commands = random.client().sysbench.cmdline.commands
   local found = type(commands) == "table" and commands[name]
   return type(found) == "table" and found[1] ~= nil and found or nil
end

function cmdline.command_defined(name)
   return entry(name) ~= nil
end

function cmdline.command_parallel(name)
   local found = entry(name)
   return found ~= nil and found[2] == cmdline.PARALLEL_COMMAND
end

-- False when there is no such command, or when it gives false.
function cmdline.call_command(name)
   local found = entry(name)
   if found == nil then
      return false
   end
   local result = found[1]()
   return result == nil or (result and true or false)
end

-- Checks what the script declares; the engine reads it.
function cmdline.read_cmdline_options()
   local options = random.client().sysbench.cmdline.options
   local wrong = options ~= nil and engine.check_options(options)
   if wrong then
      error(wrong, 0)
   end
   return true
end

function cmdline.print_test_options()
   write(engine.options_text)
end

return cmdline
