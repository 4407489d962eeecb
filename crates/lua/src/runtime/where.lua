-- Where the script is: the calls that are in its own files.
local getinfo = debug.getinfo

return function()
   local lines = {}
   local level = 2
   while #lines < 20 do
      local info = getinfo(level, "Sln")
      if info == nil then
         break
      end
      if info.source:sub(1, 1) == "@" and info.currentline > 0 then
         local what = info.name and string.format(": in function '%s'", info.name) or ""
         lines[#lines + 1] = string.format("\n  %s:%d%s", info.source:sub(2), info.currentline, what)
      end
      level = level + 1
   end
   return table.concat(lines)
end
