//! sysbench's API other than statements: loops of the script's own, errors that it catches, commands.

use pgdyno_engine::driver::{Change, Event, Request};

use crate::runtime_tests::{Client, message, open, refusal, rows, settings};
use crate::{Script, Workload};

const CONNECT: &str = "function thread_init() con = sysbench.sql.driver():connect() end\n";

/// A connected client of a script that connects.
fn client_of(text: &str) -> Client {
    let mut client = Client::new(&format!("{CONNECT}{text}"));
    client.connect();
    assert!(client.is_done(), "{:?}", client.last);
    client
}

fn done() -> Vec<u8> {
    message(b'C', b"UPDATE 1\0")
}

#[test]
fn a_loop_of_the_scripts_own_takes_one_event_after_the_other() {
    let mut client = client_of(
        "function event() con:query('E') end
         function thread_run(tid)
            local rounds = 0
            while ffi.C.sb_more_events(tid) do
               rounds = rounds + 1
               ffi.C.sb_event_start(tid)
               event()
               ffi.C.sb_event_stop(tid)
            end
            assert(not ffi.C.sb_more_events(tid))
            con:query('rounds ' .. rounds .. ' of ' .. tid)
         end
         function thread_done() con:query('thread_done') end",
    );
    for _ in 0..3 {
        assert_eq!(client.begin().sent(), "Q\0\0\0\x06E\0");
        assert!(client.answer(&done()).is_done());
    }
    assert!(client.go(Event::Ending).sent().contains("rounds 3 of 1"),);
    assert!(client.answer(&done()).sent().contains("thread_done"));
    assert!(client.answer(&done()).is_done());
}

#[test]
fn a_loop_that_ends_itself_stops_its_client() {
    let mut client = client_of(
        "function event() return true end
         local standard = thread_run
         function thread_run(tid) standard(tid) end",
    );
    client.begin();
    assert!(matches!(client.last, Request::Stop), "{:?}", client.last);
    assert!(client.go(Event::Ending).is_done());
    // an event that a loop does not end after an error is begun again
    let mut client = client_of(
        "function event() con:query('E') end
         function thread_run(tid)
            while ffi.C.sb_more_events(tid) do
               if pcall(event) then ffi.C.sb_event_stop(tid) end
            end
         end",
    );
    client.begin().answer(&refusal("42P01"));
    let Request::Refused(refused) = &client.last else { panic!("{:?}", client.last) };
    assert!(refused.ignorable);
    client.begin();
    assert!(client.answer(&done()).is_done());
}

#[test]
fn a_lost_connection_is_not_lost_on_a_script_that_catches_errors() {
    let mut client = client_of("function event() pcall(con.query, con, 'first') pcall(con.query, con, 'second') end");
    assert!(client.begin().sent().contains("first"));
    // the second statement would go to a session that does not have the transaction
    assert!(client.connect().is_done(), "{}", client.sent());
    assert!(client.begin().sent().contains("first"));
    // an event that the script wants again is called again
    let mut client = client_of(
        "local calls, hooks = 0, 0
         function sysbench.hooks.before_restart_event(e) hooks = hooks + e.mine end
         function event()
            calls = calls + 1
            if calls < 3 then error({ errcode = sysbench.error.RESTART_EVENT, mine = 10 }) end
            con:query(calls .. ' calls, ' .. hooks)
         end",
    );
    assert!(client.begin().sent().contains("3 calls, 20"));
    assert!(client.answer(&done()).is_done());
}

#[test]
fn an_error_that_is_fatal_is_a_text_to_the_script_and_the_servers_to_the_engine() {
    let mut client = client_of(
        "function event()
            local ok, why = pcall(function() local _ = con:query('E') end)
            con:query(why)
            assert(con.error == sysbench.sql.error.NONE and con:check_error(nil, 'E') == nil)
            local ok, again = pcall(function() local _ = con:query('E') end)
            assert(con.error == sysbench.sql.error.FATAL and con.sql_state == '42P01' and con.sql_errmsg == 'no')
            con:check_error(nil, 'E')
         end",
    );
    client.begin().answer(&refusal("42P01"));
    let words = "test.lua:3: SQL error, errno = 0, state = '42P01': no";
    assert!(client.sent().contains(words), "{}", client.sent());
    client.answer(&done()).answer(&refusal("42P01"));
    let Request::Refused(refused) = &client.last else { panic!("{:?}", client.last) };
    assert!(!refused.ignorable);
    let words = refused.words.clone().unwrap_or_default();
    assert!(words.starts_with("SQL error, SQLSTATE 42P01: no\n  test.lua:8"), "{words}");
}

#[test]
fn rows_whose_tag_has_no_number_are_counted() {
    let mut client = client_of(
        "function event()
            local plan = con:query('EXPLAIN SELECT 1')
            assert(plan.nrows == 2 and plan:fetch_row()[1] == 'Result' and plan:fetch_row()[1] == ' x')
            assert(plan:fetch_row() == nil)
            con:query(con:query_row('SHOW port'))
         end",
    );
    let tagged = |values: &[Option<&str>], tag: &str| {
        let mut bytes = rows(values);
        bytes.truncate(bytes.len() - message(b'C', b"SELECT 1\0").len());
        [bytes, message(b'C', tag.as_bytes())].concat()
    };
    client.begin();
    client.answer(&tagged(&[Some("Result"), Some(" x")], "EXPLAIN\0"));
    assert!(client.sent().contains("SHOW port"), "{:?}", client.last);
    client.answer(&tagged(&[Some("5432")], "SHOW\0"));
    assert!(client.sent().contains("5432"), "{:?}", client.last);
}

#[test]
fn a_statement_that_the_server_refused_to_prepare_is_prepared_again() {
    let mut client = client_of(
        "function event()
            local ok, statement = pcall(con.prepare, con, 'SELECT a FROM late')
            if not ok then
               con:query('CREATE TABLE late')
               statement = con:prepare('SELECT a FROM late')
            end
            statement:execute()
         end",
    );
    assert!(client.begin().sent().contains("SELECT a FROM late"));
    let sent = client.answer(&refusal("42P01")).sent();
    assert!(sent.contains("CREATE TABLE late"), "{sent:?}");
    let sent = client.answer(&message(b'C', b"CREATE TABLE\0")).sent();
    assert!(sent.contains("SELECT a FROM late"), "{sent:?}");
    let sent = client.answer(b"1\0\0\0\x04").sent();
    assert!(sent.contains("sb_0") && !sent.contains("SELECT"), "{sent:?}");
    assert!(client.answer(&message(b'C', b"SELECT 0\0")).is_done());
    // in the next transaction it is prepared already
    assert!(!client.begin().sent().contains("SELECT"));
    // a refused statement is not prepared in a new session
    let mut client = client_of("function event() pcall(con.prepare, con, 'SELECT a FROM none') end");
    client.begin();
    assert!(client.answer(&refusal("42P01")).is_done());
    assert!(client.connect().is_done(), "{:?}", client.sent());
    // a connection that fails leaves the statements of the current one
    let mut client = client_of(
        "function event()
            con:prepare('SELECT 1'):execute()
            assert(not pcall(sysbench.sql.driver().connect, sysbench.sql.driver()))
            con:prepare('SELECT 1'):execute()
         end",
    );
    assert!(client.begin().sent().contains("SELECT 1"));
    client.answer(b"1\0\0\0\x04");
    client.answer(&message(b'C', b"SELECT 1\0"));
    assert!(matches!(client.last, Request::Change(Change::Open(1))), "{:?}", client.last);
    client.go(Event::Changed(Some("too many clients".to_owned())));
    let sent = client.sent();
    assert!(sent.contains("sb_0") && !sent.contains("SELECT"), "{sent:?}");
}

#[test]
fn an_option_that_a_client_changes_stays_as_it_was_for_the_others() {
    let text = format!(
        "sysbench.cmdline.options = {{ rows = {{ 'rows', 100 }} }}
         {CONNECT}
         function event()
            sysbench.opt.rows = sysbench.opt.rows / sysbench.opt.threads
            sysbench.opt.mine = (sysbench.opt.mine or 0) + 1
            con:query(sysbench.opt.rows .. ' rows, ' .. sysbench.opt.mine)
         end"
    );
    let workload = open(&text, "run", &[]);
    for _ in 0..2 {
        let mut client = Client::of(&workload);
        client.connect().begin();
        assert!(client.sent().contains("50 rows, 1"), "{}", client.sent());
    }
}

#[test]
fn parameters_take_what_fits_and_are_zero_or_empty_if_never_set() {
    let mut client = client_of(
        "function event()
            local statement = con:prepare('SELECT ?, ?')
            statement:bind_param(statement:bind_create(sysbench.sql.type.INT),
               statement:bind_create(sysbench.sql.type.VARCHAR, 4))
            assert(statement:execute() == nil)
         end",
    );
    client.begin().answer(b"1\0\0\0\x04");
    let values = "\0\x02\0\0\0\x010\0\0\0\0";
    assert!(client.sent().contains(values), "{:?}", client.sent());
    // values are cut to what the parameter takes
    let mut client = client_of(
        "function event()
            local statement = con:prepare('SELECT ?, ?, ?')
            local a, b, c = statement:bind_create(sysbench.sql.type.BIGINT),
               statement:bind_create(sysbench.sql.type.CHAR, 3), statement:bind_create(sysbench.sql.type.BIGINT)
            statement:bind_param(a, b, c)
            a:set(-2.7)
            b:set('abcdef')
            c:set(require('ffi').cast('uint64_t', 9007199254740993ULL))
            statement:execute()
         end",
    );
    client.begin().answer(b"1\0\0\0\x04");
    assert!(client.sent().contains("\0\x03\0\0\0\x02-2\0\0\0\x03abc\0\0\0\x109007199254740993"), "{:?}", client.sent());
    // what is no statement or value is an error to the script
    let mut client = client_of(
        "function event()
            for _, query in ipairs({ 5, {}, true }) do
               local ok, why = pcall(function() con:query(query) end)
               assert(not ok and why == 'test.lua:4: a query is a string, not a ' .. type(query), why)
            end
            local param = con:prepare('SELECT ?'):bind_create(sysbench.sql.type.INT)
            for _, value in ipairs({ {}, print }) do
               local ok, why = pcall(function() param:set(value) end)
               assert(not ok and why == 'test.lua:9: a ' .. type(value) .. ' is no value of SQL', why)
            end
            con:query('done')
         end",
    );
    let sent = client.begin().sent();
    assert!(sent.contains("done"), "{sent:?} {:?}", client.last);
}

#[test]
fn a_command_that_gives_false_has_failed_and_old_scripts_have_global_options() {
    let text = "sysbench.cmdline.commands = { load = { function() return false end },
        help = { function() con = sysbench.sql.driver():connect() con:query('help') end } }";
    let mut client = Client::of(&open(text, "load", &[]));
    client.connect().begin();
    assert_eq!(client.abort(), "command \"load\" failed: its function gave false");
    // options that the script declares come before the general ones
    let mut client = Client::of(&open(text, "help", &[]));
    client.connect().begin();
    assert!(client.sent().contains("help"));
    // old scripts have their options as globals
    let text = "function event() db_query(oltp_table_size .. ' of ' .. rand_type .. ' ' .. threads) end";
    let mut client = Client::of(&open(text, "run", &[("oltp-table-size", "500")]));
    client.connect().begin();
    assert!(client.sent().contains("500 of special 2"), "{:?}", client.last);
    client.answer(&rows(&[Some("1")]));
    assert!(client.is_done());
}

#[test]
fn numbers_of_a_range_come_once_from_all_clients() {
    let text = "function event()
        local numbers = {}
        for at = 1, 40 do numbers[at] = sb_rand_uniq(4294900000, 4294967295) end
        error(table.concat(numbers, ' '), 0)
     end";
    let workload = open(text, "run", &[]);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut client = Client::of(&workload);
        client.connect().begin();
        let words = client.abort().lines().next().unwrap_or_default().to_owned();
        seen.extend(words.split(' ').map(|word| word.parse::<u32>().expect(&words)));
    }
    assert!(seen.iter().all(|number| *number >= 4_294_900_000));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 80);
}

#[test]
fn a_script_refuses_values_of_its_options() {
    let text = "sysbench.cmdline.options = {
           size = { 'size', 1, nil, function(name, value) return name == 'size' and value ~= '13' end },
           other = { 'another', 1 },
        }
        function event() end";
    let script = || Script::own("test.lua", text, &[]);
    let given = |size| settings("run", &[("size", size), ("other", "13")]);
    assert!(Workload::open(script(), given("12")).is_ok());
    let error = Workload::open(script(), given("13")).expect_err("it is refused");
    assert_eq!(error.message, "invalid option: --size=13: the script refuses it");
    // what is wrong with declared options is said
    for (options, message) in [
        ("7", "sysbench.cmdline.options has to be a table, and is of type integer"),
        ("{ size = 7 }", "sysbench.cmdline.options.size is not a table of a description and a default"),
        ("{ size = {} }", "sysbench.cmdline.options.size has no description"),
        (
            "{ size = { 'size', 'big', sysbench.cmdline.ARG_INT } }",
            "sysbench.cmdline.options.size has the default \"big\", which is not a whole number of 32 bits",
        ),
        (
            "{ size = { 'size', 1, 99 } }",
            "sysbench.cmdline.options.size has a type that is none of sysbench.cmdline.ARG_...",
        ),
    ] {
        let text = format!("sysbench.cmdline.options = {options}\nfunction event() end");
        let script = Script::own("test.lua", &text, &[]);
        let error = Workload::open(script, settings("run", &[])).expect_err(options);
        assert!(error.message.starts_with(message), "{error}");
    }
}
