//! What scripts may do, with whom they share a state, and what compiling them does.

use std::fs;
use std::path::PathBuf;

use pgdyno_engine::driver::{Event, Request};

use crate::runtime_tests::{Client, open, refusal, rows, settings};
use crate::{Script, ScriptError, Workload};

/// Opens a script with this text at its top level.
fn run(text: &str) -> Result<Workload, ScriptError> {
    let script = Script::own("test.lua", &format!("{text}\nfunction event() end"), &[]);
    Workload::open(script, settings("run", &[]))
}

#[test]
fn a_script_has_all_of_lua_but_not_all_memory() {
    let text = "assert(os.execute('true') == 0)
        assert(io.open('/etc/passwd'))
        assert(debug.getregistry())
        ffi.cdef('int getpid(void);')
        assert(ffi.C.getpid() > 0)
        assert(loadstring(string.dump(function() return 7 end))() == 7)
        assert(require('string.buffer').new())";
    run(text).expect("it may");
    // a script that takes all memory ends with words
    let text = "local t = {} while true do t[#t + 1] = ('x'):rep(50000000) .. #t end";
    let error = run(text).expect_err("it takes all").message;
    assert!(error.contains("more memory than"), "{error}");
    // compiling runs nothing
    let compile = |text: &str| Script::own("test.lua", text, &[]).compile();
    compile("error('it ran')").expect("it is not run");
    compile("while true do end").expect("it is not run");
    let error = compile("x = ").expect_err("it is no program").message;
    assert!(error.starts_with("test.lua:1:"), "{error}");
    assert!(compile("end error('it ran') do").is_err());
    assert!(compile("\u{1b}LJ\u{2}").is_err());
}

/// Types, and with them their methods, belong to a state; each client runs the whole script.
#[test]
fn each_client_of_a_state_declares_its_types() {
    let text = "ffi.cdef[[typedef struct { int x; } meter; int usleep(unsigned us);]]
        local meter = ffi.metatype('meter', { __index = { twice = function(m) return 2 * m.x end } })
        function event() assert(meter(4):twice() == 8) end";
    let workload = open(text, "run", &[]);
    for _ in 0..2 {
        let mut client = Client::of(&workload);
        assert!(client.connect().is_done());
        assert!(client.begin().is_done(), "{:?}", client.last);
    }
}

#[test]
fn a_coroutine_of_the_script_sends_statements_as_the_script_does() {
    let text = "local con
        function thread_init() con = sysbench.sql.driver():connect() end
        function event()
           assert(coroutine.running() == nil and not pcall(coroutine.yield, 3, 2 ^ 52))
           local seen = {}
           local inner = coroutine.create(function()
              local fetch = coroutine.wrap(function() coroutine.yield(con:query('SELECT 1'):fetch_row()[1]) end)
              coroutine.yield(fetch())
              con:query('SELECT nothing')
           end)
           local ok, value = coroutine.resume(inner)
           assert(ok and value == '7' and coroutine.status(inner) == 'suspended')
           ok, value = coroutine.resume(inner)
           assert(not ok and value:find('42P01') and coroutine.status(inner) == 'dead')
        end";
    let mut client = Client::new(text);
    assert!(client.connect().is_done());
    assert!(client.begin().sent().contains("SELECT 1"));
    let sent = client.answer(&rows(&[Some("7")])).sent();
    assert!(sent.contains("SELECT nothing"), "{sent} {:?}", client.last);
    assert!(client.answer(&refusal("42P01")).is_done(), "{:?}", client.last);
}

/// C's own would keep all clients of the thread waiting.
#[test]
fn a_wait_in_c_is_a_wait_of_one_client() {
    let declared = "ffi.cdef[[int usleep(unsigned us); unsigned sleep(unsigned s);
        int poll(void *files, unsigned long count, int ms); struct timespec { long tv_sec; long tv_nsec; };
        int nanosleep(const struct timespec *length, struct timespec *left);]]";
    for (wait, length_ms) in [
        ("ffi.C.usleep(50000)", 50),
        ("ffi.C.sleep(2)", 2000),
        ("ffi.C.poll(nil, 0, 30)", 30),
        ("ffi.C.nanosleep(ffi.new('struct timespec', 1, 5e8), nil)", 1500),
        ("ffi.C.nanosleep(ffi.new('struct timespec[1]', {{0, 7e6}}), nil)", 7),
        ("pcall(coroutine.wrap(function() ffi.C.usleep(1000) end))", 1),
    ] {
        // outside of a client there is nobody to keep waiting
        let text = format!("{declared} function init() ffi.C.usleep(1) end function event() {wait} end");
        let mut client = Client::new(&text);
        assert!(client.connect().is_done());
        client.begin();
        let Request::Sleep(length) = client.last else { panic!("{wait}: {:?}", client.last) };
        assert_eq!(length.as_micros(), length_ms * 1000, "{wait}");
        assert!(client.go(Event::Woken).is_done(), "{wait}");
    }
}

#[test]
fn what_workloads_need_is_there() {
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
    let folder = std::env::temp_dir().join(format!("pgdyno-beside-{}", std::process::id()));
    let below = folder.join("bench/parts");
    fs::create_dir_all(&below).expect("folders");
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    put("bench/names.txt", "first\nsecond\n");
    put("bench/common.lua", "#!/usr/bin/env sysbench\ncommon = 'common'");
    put("bench/parts/orders.lua", "orders = common .. ' orders'");
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
