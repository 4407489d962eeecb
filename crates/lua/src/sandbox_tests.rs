//! Attempts to escape from the sandbox, and what scripts may do in it.

use std::fs;
use std::path::PathBuf;

use crate::runtime_tests::{Client, open, settings};
use crate::{Script, ScriptError, Settings, Workload};

/// Opens a script with this text at its top level.
fn run(text: &str) -> Result<Workload, ScriptError> {
    let script = Script::own("test.lua", &format!("{text}\nfunction event() end"), &[]);
    Workload::open(script, settings("run", &[]))
}

/// Code that returns true if it has escaped; each piece must fail or return something else.
const WAYS_OUT: &[&str] = &[
    // programs, under all names of the libraries
    "return os.execute('true') ~= nil",
    "return os.execute() ~= nil",
    "return io.popen('echo') ~= nil",
    "return _G.os.execute('true') ~= nil",
    "return _G._G.os.execute('true') ~= nil",
    "return require('os').execute('true') ~= nil",
    "return package.loaded.os.execute('true') ~= nil",
    "return package.loaded._G.os.execute('true') ~= nil",
    "return package.loaded.io.popen('echo') ~= nil",
    "return getfenv(0).os.execute('true') ~= nil",
    "return getfenv(1).os.execute('true') ~= nil",
    "return getfenv(require).os.execute('true') ~= nil",
    "return getfenv(dofile).require('os').execute('true') ~= nil",
    "return getfenv(sysbench.rand.default).os.execute('true') ~= nil",
    "return getfenv(sysbench.rand.default).package.loaded.debug.getregistry() ~= nil",
    "return getfenv(sysbench.rand.default).require('ffi').C.getpid() > 0",
    "return getfenv(sysbench.rand.default).dofile('/etc/passwd')",
    "return coroutine.wrap(function() return getfenv(0).os.execute('true') ~= nil end)()",
    "return coroutine.wrap(function() return _G.io.popen('echo') ~= nil end)()",
    "return loadstring(\"return os.execute('true') ~= nil\")()",
    "return load(function() local t = text; text = nil; return t end, 'x', 't', { os = os }) and os.execute('true') ~= nil",
    "return setfenv(function() return os.execute('true') ~= nil end, getfenv(0))()",
    "module('mine', package.seeall) return os.execute('true') ~= nil",
    "module('os') return execute('true') ~= nil",
    "return getmetatable('').__index.execute ~= nil",
    "for _, library in pairs(package.loaded) do
        if type(library) == 'table' and rawget(library, 'getregistry') then return true end end",
    "os.exit(3) return true",
    // files
    "return io.open('/etc/passwd') ~= nil",
    "return io.open('/proc/self/environ', 'rb') ~= nil",
    "return io.open('./Cargo.toml') ~= nil",
    "return io.lines('/etc/passwd')() ~= nil",
    "io.input('/etc/passwd') return io.read() ~= nil",
    "io.output('/tmp/pgdyno-sandbox') return true",
    "return io.open('/tmp/pgdyno-sandbox', 'w') ~= nil",
    "return io.open('/tmp/pgdyno-sandbox', 'r+') ~= nil",
    "return io.tmpfile() ~= nil",
    "return os.tmpname() ~= nil",
    "os.remove('/tmp/pgdyno-sandbox') return true",
    "os.rename('/tmp/pgdyno-sandbox', '/tmp/pgdyno-sandbox2') return true",
    "os.setlocale('C') return true",
    "return select(2, loadfile('/etc/passwd')):find('root') ~= nil",
    "return not select(2, pcall(dofile, '/etc/passwd')):find('refused')",
    "return not select(2, pcall(require, '/etc/passwd')):find('not found')",
    "package.path = '/etc/?' return not select(2, pcall(require, 'passwd')):find('refused')",
    "return package.searchpath('passwd', '/etc/?') ~= nil",
    "return loadfile() ~= nil",
    // the program itself
    "return debug.getregistry() ~= nil",
    "return debug.getupvalue(sysbench.rand.default, 1) ~= nil",
    "debug.sethook(function() end, 'l') return true",
    "return debug.getmetatable('') ~= nil",
    "debug.setmetatable(1, {}) return true",
    "return debug.getlocal(1, 1) ~= nil",
    "return debug.upvalueid(function() return run end, 1) ~= nil",
    "return require('debug').getregistry() ~= nil",
    "return package.loaded.debug.getregistry() ~= nil",
    "return debug.getinfo(1).func ~= nil",
    "return debug.getinfo(1, 'f').func ~= nil",
    "return debug.getinfo(print, 'nSluf').func ~= nil",
    "return debug.getinfo(1, '>f') and debug.getinfo(1, '>f').func ~= nil",
    "return debug.getinfo(coroutine.create(print), 0, 'f') ~= nil",
    // C
    "return ffi.C.getpid() > 0",
    "ffi.cdef('int getpid(void);') return ffi.C.getpid() > 0",
    "ffi.cdef('int system(const char *);') return ffi.C.system('true') == 0",
    "return require('ffi').load('c') ~= nil",
    "return package.loaded.ffi ~= nil",
    "return package.preload.ffi ~= nil",
    "return getmetatable(ffi.C) and getmetatable(ffi.C).__index.getpid ~= nil",
    "return getmetatable(ffi).__index.load('c') ~= nil",
    "return ffi.cast('char *', 0) == nil",
    "return ffi.cast('uintptr_t', 'text') ~= nil",
    "return ffi.cast('uint64_t', 'text') ~= nil",
    "return ffi.cast('uint64_t', ffi.new('char[4]')) ~= nil",
    "return ffi.cast('int (*)(void)', 0) == nil",
    "return ffi.new('int[1]') ~= nil",
    "return ffi.new('char *[1]') ~= nil",
    "return ffi.new('void *') == nil",
    "return ffi.typeof('int *') ~= nil",
    "return ffi.typeof('struct { int *p; }') ~= nil",
    "return ffi.new('struct { char text[4]; }') ~= nil",
    "ffi.cdef('struct s { int *p; };') return ffi.new('struct s') ~= nil",
    "ffi.cdef('struct s { int a[4]; };') return ffi.new('struct s') ~= nil",
    "ffi.cdef('struct s { char *p, q; };') return ffi.new('struct s') ~= nil",
    "ffi.cdef('struct s { int a; void (*f)(void); };') return ffi.new('struct s') ~= nil",
    "ffi.cdef('typedef char *text;') return ffi.new('text') == nil",
    "ffi.cdef('typedef int many[8];') return ffi.new('many') ~= nil",
    "ffi.cdef('typedef union { long a; char *p; } u;') return ffi.new('u') ~= nil",
    "ffi.cdef('struct s { union { long a; char *p; } u; };') return ffi.new('struct s') ~= nil",
    "ffi.cdef('struct s { int a; }; } ; int getpid(void); struct t { int b; };') return ffi.C.getpid() > 0",
    "return ffi.new('char[4]')[4] ~= nil",
    "return ffi.new('char[4]')[-1] ~= nil",
    "ffi.new('char[4]')[1000] = 1 return true",
    "ffi.copy(ffi.new('char[4]'), 'longer than that') return true",
    "return ffi.string(ffi.new('char[4]'), 100) ~= nil",
    "return ffi.string(0, 100) ~= nil",
    "ffi.fill(ffi.new('char[4]'), 100) return true",
    "return ffi.metatype('struct s', {}) ~= nil",
    "return ffi.gc(1ULL, print) ~= nil",
    "return ffi.offsetof('struct s', 'a') ~= nil",
    "return require('string.buffer').new() ~= nil",
    "return string.buffer ~= nil",
    "return require('jit.util').funck(sysbench.rand.default, -1) ~= nil",
    "return jit.util ~= nil",
    "return require('jit.profile') ~= nil",
    "jit.attach(print, 'bc') return true",
    "return package.loadlib('libc.so.6', '*') ~= nil",
    "return package.loaders[1]('ffi') ~= nil",
    "return package.loaders[3] ~= nil or package.loaders[4] ~= nil",
    "package.cpath = '/lib/x86_64-linux-gnu/lib?.so.6' return require('c') ~= nil",
    // bytecode, which LuaJIT does not verify
    "return loadstring(string.dump(function() end)) ~= nil",
    "return loadstring(string.dump(function() end), 'x', 'b') ~= nil",
    "return load(string.dump(function() end)) ~= nil",
    "local code = string.dump(function() end)
     return load(function() local part = code; code = nil; return part end) ~= nil",
    "return getfenv(sysbench.rand.default).loadstring(string.dump(function() end)) ~= nil",
];

#[test]
fn no_way_leads_out_of_the_sandbox() {
    let mut open = Vec::new();
    for way in WAYS_OUT {
        let text = format!(
            "local fine, got = pcall(function() {way}\nend)
             if fine and got then error('OUT', 0) end"
        );
        if let Err(error) = run(&text) {
            open.push(format!("{way}: {error}"));
        }
    }
    assert!(open.is_empty(), "{} ways:\n{}", open.len(), open.join("\n"));
}

/// Scripts cannot make requests that only the runtime makes, with arguments that it never uses.
#[test]
fn a_script_cannot_speak_to_the_engine_in_place_of_the_runtime() {
    for asked in [
        "3, 2^52",
        "5, 0, 0, 2^52, {}",
        "10, 2^52",
        "11, 7",
        "12, 2^52",
    ] {
        let text = format!("function event() coroutine.yield({asked}) end");
        let workload = open(&text, "run", &[]);
        let mut client = Client::of(&workload);
        assert!(client.connect().is_done(), "{asked}");
        let words = client.begin().abort().to_owned();
        assert!(words.contains("coroutine.yield"), "{asked}: {words}");
    }
    let own = "function event()
        local count = 0
        for each in coroutine.wrap(function() coroutine.yield(1) coroutine.yield(2) end) do count = count + each end
        assert(count == 3)
    end";
    let workload = open(own, "run", &[]);
    let mut client = Client::of(&workload);
    assert!(client.connect().is_done());
    assert!(client.begin().is_done());
}

#[test]
fn a_refusal_names_the_function_its_place_and_the_remedy() {
    for (text, name) in [
        ("os.execute('true')", "os.execute is refused"),
        ("os.exit()", "os.exit is refused"),
        ("io.popen('ls')", "io.popen is refused"),
        (
            "io.open('/etc/passwd')",
            "io.open(\"/etc/passwd\") is refused",
        ),
        ("io.open('x', 'w')", "io.open with mode 'w' is refused"),
        (
            "dofile('/etc/passwd')",
            "dofile(\"/etc/passwd\") is refused",
        ),
        ("debug.getupvalue(print, 1)", "debug.getupvalue is refused"),
        ("ffi.C.getpid()", "ffi.C.getpid is refused"),
        ("ffi.load('c')", "ffi.load is refused"),
        ("ffi.new('int *')", "ffi.new(\"int *\") is refused"),
        ("package.loadlib('a', 'b')", "package.loadlib is refused"),
        (
            "assert(loadstring(string.dump(print and function() end)))",
            "loadstring of bytecode is refused",
        ),
        (
            "package.path = '/etc/?' require('passwd')",
            "require of \"/etc/passwd\" is refused",
        ),
        (
            "require('string.buffer')",
            "require(\"string.buffer\") is refused",
        ),
    ] {
        let error = run(text).expect_err(text).message;
        assert!(error.contains(name), "{text}: {error}");
        assert!(error.contains("--allow-lua-system"), "{text}: {error}");
        assert!(error.contains("allow_lua_system = true"), "{text}: {error}");
        assert!(error.contains("test.lua:1"), "{text}: {error}");
    }
}

#[test]
fn a_trusted_script_has_all_of_lua() {
    let text = "assert(os.execute('true') == 0)
        assert(io.open('/etc/passwd'))
        assert(debug.getregistry())
        ffi.cdef('int getpid(void);')
        assert(ffi.C.getpid() > 0)
        assert(loadstring(string.dump(function() return 7 end))() == 7)
        assert(require('string.buffer').new())
        function event() end";
    let settings = Settings {
        allows_system: true,
        ..settings("run", &[])
    };
    Workload::open(Script::own("test.lua", text, &[]), settings).expect("it may");
}

#[test]
fn what_workloads_need_is_in_the_sandbox() {
    let text = r#"
        assert(os.time() > 0 and os.date('%Y') and os.clock() >= 0 and os.difftime(2, 1) == 1)
        assert(os.getenv('PATH'))
        assert(loadstring('return 7')() == 7 and load('return ...', 'x')(8) == 8)
        local parts = { 'return ', '9' }
        assert(load(function() return table.remove(parts, 1) end)() == 9)
        assert(type(select(2, loadstring('return +'))) == 'string')
        assert(require('bit').band(7, 3) == 3 and require('table.new')(4, 0) and jit.version)
        assert(debug.traceback('here'):find('here'))
        assert(debug.getinfo(1, 'S').short_src == 'test.lua', debug.getinfo(1, 'S').short_src)
        assert(debug.getinfo(1).currentline == 10)
        package.preload.mine = function() return { 5 } end
        assert(require('mine')[1] == 5)
        collectgarbage() collectgarbage()
        ffi.cdef [[
           typedef uint32_t useconds_t; int usleep(useconds_t useconds); // a declaration that is not called
           /* a comment; */ struct basket { int articles; unsigned int left, right; double price; };
           typedef struct { uint64_t total; } sums;
           struct point { int x, y; }; typedef struct point point_t; typedef point_t place;
        ]]
        assert(ffi.new('point_t', 1, 2).y == 2 and ffi.new('place', 1, 2).x == 1)
        local basket = ffi.new('struct basket', 3, 4, 5, 0.5)
        basket.articles = basket.articles + 1
        assert(basket.articles == 4 and basket.right == 5 and basket.price == 0.5)
        assert(tostring(ffi.new('sums', 7).total) == '7ULL')
        assert(ffi.cast('uint64_t', 2) * 3 == 6ULL and ffi.cast('int32_t', 2 ^ 32 + 5) == 5)
        assert(tostring(ffi.typeof('uint64_t')) == 'ctype<uint64_t>')
        assert(ffi.istype('int64_t', 5LL) and not ffi.istype('int64_t', 5) and ffi.sizeof('useconds_t') == 4)
        local buffer = ffi.new('char[?]', 8)
        ffi.copy(buffer, 'abc')
        assert(ffi.string(buffer) == 'abc' and ffi.string(buffer, 2) == 'ab' and buffer[0] == 97)
        ffi.C.sb_rand_str('####', buffer)
        assert(ffi.string(buffer):match('^%d%d%d%d$') and ffi.sizeof(buffer) == 8)
    "#;
    if let Err(error) = run(text.trim_start()) {
        panic!("{error}");
    }
}

#[test]
fn files_beside_the_script_are_read_and_loaded() {
    let folder = std::env::temp_dir().join(format!("pgdyno-sandbox-{}", std::process::id()));
    let below = folder.join("bench/parts");
    fs::create_dir_all(&below).expect("folders");
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    put("secret.txt", "secret");
    put("outside.lua", "leaked = true");
    put("bench/names.txt", "first\nsecond\n");
    put(
        "bench/common.lua",
        "#!/usr/bin/env sysbench\ncommon = 'common'",
    );
    put("bench/parts/orders.lua", "orders = common .. ' orders'");
    std::os::unix::fs::symlink(folder.join("secret.txt"), folder.join("bench/link.txt"))
        .expect("a link");
    std::os::unix::fs::symlink(folder.join("outside.lua"), folder.join("bench/link.lua"))
        .expect("a link");
    let main = r#"
        local here = sysbench.cmdline.script_path:match("(.*/)")
        package.path = here .. "parts/?.lua;" .. package.path
        dofile(here .. "common.lua")
        require("orders")
        assert(orders == "common orders")
        assert(assert(loadfile(here .. "common.lua"))() == nil)
        local file = assert(io.open(here .. "names.txt"))
        assert(file:read() == "first")
        local count = 0
        for line in io.lines(here .. "names.txt") do count = count + 1 end
        assert(count == 2)
        local none, why, code = io.open(here .. "none.txt")
        assert(none == nil and why:find("No such file") and code == 2)
        for _, name in ipairs({ "link.txt", "../secret.txt", "parts/../../secret.txt" }) do
           local ok, why = pcall(io.open, here .. name)
           assert(not ok and why:find("is refused"), name)
        end
        for _, name in ipairs({ "link.lua", "../outside.lua" }) do
           assert(not pcall(dofile, here .. name), name)
        end
        assert(not pcall(require, "link") and leaked == nil)
        function event() end
    "#;
    put("bench/main.lua", main);
    let script: PathBuf = folder.join("bench/main.lua");
    let script = Script::find(&script.display().to_string()).expect("it is there");
    let opened = Workload::open(script, settings("run", &[]));
    fs::remove_dir_all(folder).expect("it is ours");
    if let Err(error) = opened {
        panic!("{error}");
    }
}

#[test]
fn compiling_runs_nothing() {
    let compile = |text: &str| Script::own("test.lua", text, &[]).compile();
    compile("error('it ran')").expect("it is not run");
    compile("while true do end").expect("it is not run");
    let error = compile("x = ").expect_err("it is no program").message;
    assert!(error.starts_with("test.lua:1:"), "{error}");
    assert!(compile("end error('it ran') do").is_err());
    let code = "\u{1b}LJ\u{2}";
    assert!(compile(code).is_err());
}

#[test]
fn a_script_that_takes_all_memory_ends_with_words() {
    let text = "local t = {} while true do t[#t + 1] = ('x'):rep(50000000) .. #t end";
    let error = run(text).expect_err("it takes all").message;
    assert!(error.contains("more memory than"), "{error}");
}
