//! Values and errors of expressions.

mod common;

use common::generate::expression;
use common::{evaluated, run};
use proptest::prelude::*;

/// Checks expressions, each followed by `=>` and its value or its error.
fn check(table: &str) {
    let defines = "foo=-10.1 i=+3 n=null t=t f=of bad=bla zero=0 minint=-9223372036854775808 maxint=9223372036854775807 \
                   default_seed=5432";
    let defines: Vec<_> = defines.split(' ').filter_map(|word| word.split_once('=')).collect();
    for row in table.split(';') {
        let (expr, expected) = row.split_once("=>").expect(row);
        assert_eq!(evaluated(expr.trim(), &defines), expected.trim(), "{expr}");
    }
}

#[test]
fn precedence_and_associativity() {
    check(
        r#"
        1 + 2 * 3 => int 7; 10 - 3 - 2 => int 5; 100 / 10 / 5 => int 2; 100 / 10 % 4 => int 2; -2 * -3 => int 6;
        - - 2 => int 2; + - + 2 => int -2; 1 | 2 + 4 => int 7; 1 << 2 + 1 => int 8; 1 | 6 & 2 => int 2;
        6 # 3 | 8 => int 13; ~ 1 + 2 => int -4; ~ 1 | 2 => int -2; 2 * ~ 1 + 2 => int -8; - ~ 1 => int 2;
        1 + 2 < 4 => boolean true; 1 < 2 and 3 < 2 or true => boolean true; true or true and false => boolean true;
        not true or true => boolean true; not 1 = 2 => boolean true; not not true => boolean true;
        not null is null => boolean false; 1 = 2 is true => boolean false; 1 = 1 is true => boolean true;
        null isnull isnull => boolean false; null is null is not false => boolean true;
        1 + NOT 1 = 2 => cannot coerce boolean to int; case when 1 then 2 end + 1 => int 3; (1 + 2) * 3 => int 9;
        17 / (4|1) + ( 4 + (7 >> 2)) => int 8; - (3 * 4 - (-(~ 1) + -(~ 0))) / -1 + 3 % -1 => int 9;
        64 % (((2 + 1 * 2 + (1 # 2) | 4 * (2 & 11)) - (1 << 2)) + 2) => int 12
    "#,
    );
}

#[test]
fn integers() {
    check(
        r#"
        -9223372036854775808 => int -9223372036854775808; - 9223372036854775808 => int -9223372036854775808;
        -(:minint + 1) => int 9223372036854775807; -:minint => bigint sub out of range;
        abs(:minint) => int -9223372036854775808; :maxint + 1 => bigint add out of range;
        (1<<62) + (1<<62) => bigint add out of range; 0 - (1<<62) - (1<<62) - (1<<62) => bigint sub out of range;
        2 * (1<<62) => bigint mul out of range; :minint / -1 => bigint div out of range; :minint % -1 => int 0;
        1 / 0 => division by zero; 1 % :zero => division by zero; -7 / 2 => int -3; -7 % 2 => int -1;
        mod(-7, 2) => int -1; 7.5 % 4 => int 0; 1 << 64 => int 1; -1 >> 63 => int -1;
        1 << -1 => int -9223372036854775808; 5.4 & 7 => int 5; int(7.3) => int 7; int(2.5) => int 2;
        int(1E32) => double to int overflow for 100000000000000005366162204393472.000000;
        true + 1 => cannot coerce boolean to int; true + 1.0 => cannot coerce boolean to double;
        true = true => cannot coerce boolean to int; 1 + true * null => null; :i * 2 => int 6; abs(-4) => int 4;
        greatest(5, 4, 3, 2) => int 5; 11 + least(-5, -4, -3, -2) => int 6; greatest(, 5, 4) => int 5;
        least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15) => int 0;
        least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16) => too many function arguments, maximum is 16
    "#,
    );
}

#[test]
fn doubles() {
    check(
        r#"
        sqrt(+1.5 * 2.0) * abs(-0.8E1) => double 13.856406460551;
        double(1 + 1) * (-75.0 / :foo) => double 14.8514851485149; pi() * 4.9 => double 15.39380400259;
        greatest(4, 2, -1.17) * 4.0 * Ln(Exp(1.0)) => double 16; least(-5.18, .0E0, 1.0/0) * -3.3 => double 17.094;
        pow(-3,3) => double -27; pow(0.0,0.0) => double 1; power(-5.0,-5.0) => double -0.00032;
        pow(9223372036854775807, 2) => double 8.50705917302346e+37; pow(10,30) => double 1e+30;
        pow(true, 1) => cannot coerce boolean to double; 1.0 / 0 => double Infinity; -1.0 / 0 => double -Infinity;
        sqrt(-1) => double NaN; sqrt(-1) = sqrt(-1) => boolean false; -0.0 => double 0; 0.0 * -1 => double -0;
        1 / 2.0 => double 0.5; ln(true) => cannot coerce boolean to double; least(1, 2.5) => double 1;
        least(true, 2.5) => cannot coerce boolean to double; least(true, 2) => cannot coerce boolean to int
    "#,
    );
}

#[test]
fn logic_and_null() {
    check(
        r#"
        NULL + NULL * exp(NULL) => null; null and 1/0 => null; false and 1/0 => boolean false;
        true or 1/0 => boolean true; true and null => null; false or null => null; null or true => null;
        true and 1 => cannot coerce int to boolean; 1 and true => cannot coerce int to boolean;
        NOT 0.0 => cannot coerce double to boolean; not null => null; 1 is true => boolean false;
        1 is not null => boolean true; true is not false => boolean true;
        :n is null and not :f and :t => boolean true; :n notnull => boolean false;
        case when false then 1 end => null; case when null then 1 when 0 then 2 when 0.1 then 3 else 4 end => int 3;
        case when :zero = 0 then -1 else (1 / :zero) end => int -1; debug(null) => null; least(1, null) => null;
        1 >= 1.0 => boolean true; 1 != 2 and 1 <> 2 => boolean true;
        :bad + 1 => malformed variable "bad" value: "bla"; :nosuch => undefined variable "nosuch"
    "#,
    );
}

#[test]
fn hashes_and_permutations() {
    check(
        r#"
        hash(10, 5432) => int -5817877081768721676; hash(10) = hash_murmur2(10, :default_seed) => boolean true;
        hash_fnv1a(10) => int -7793829335365542153; hash(true) => cannot coerce boolean to int; hash(null) => null;
        permute(0, 5) + permute(1, 5) + permute(2, 5) + permute(3, 5) + permute(4, 5) => int 10;
        permute(5, 1) => int 0; permute(0, 0) => permute size parameter must be greater than zero;
        permute(-1, :maxint - 10, 5432) >= 0 => boolean true
    "#,
    );
    assert_eq!(evaluated("hash(1)", &[]), "undefined variable \"default_seed\"");
}

#[test]
fn random_functions() {
    check(
        r#"
        random(5, 5) => int 5; random(null, 5) => null; random(5, 3) => empty range given to random;
        random(:minint, :maxint) => random range is too large; random(0, :maxint) => random range is too large;
        random(1, :maxint) > 0 => boolean true; random(false, true) => cannot coerce boolean to int;
        random_gaussian(0, 10, 1.0) => gaussian parameter must be at least 2.000000 (not 1.000000);
        random_exponential(0, 10, 0.0) => exponential parameter must be greater than zero (not 0.000000);
        random_zipfian(0, 10, 1) => zipfian parameter must be in range [1.001, 1000] (not 1.000000);
        random_zipfian(0, 10, 1000000) => zipfian parameter must be in range [1.001, 1000] (not 1000000.000000);
        random_zipfian(0, 10, sqrt(-1)) => zipfian parameter must be in range [1.001, 1000] (not NaN);
        random_zipfian(0, 10, null) => null
    "#,
    );
    let script = "\\set a debug(random(10, 19))\n\
                  \\set a debug(random_exponential(100, 199, 10.0))\n\
                  \\set a debug(random_gaussian(1000, 1999, 10.0))\n\
                  \\set a debug(random_zipfian(1, 9, 1.3))\n";
    assert_eq!(
        run(script, &[]).debug,
        [
            "debug(script=0,command=1): int 17", "debug(script=0,command=2): int 104",
            "debug(script=0,command=3): int 1498", "debug(script=0,command=4): int 3",
        ]
    );
}

#[test]
fn greater_evaluates_its_right_side_first() {
    let trace = run("\\set a debug(1) > debug(2)\n\\set a debug(1) < debug(2)\n", &[]);
    let values: Vec<&str> = trace.debug.iter().map(|l| l.rsplit(' ').next().unwrap()).collect();
    assert_eq!(values, ["2", "1", "1", "2"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A constant and a variable with the same value give the same result, although only the first is folded.
    #[test]
    fn folding_changes_nothing(expr in expression()) {
        let folded = run(&format!("\\set y debug({})\n", expr.replace(":x", "7")), &[]);
        let plain = run(&format!("\\set y debug({expr})\n"), &[("x", "7")]);
        prop_assert_eq!(folded, plain);
    }
}
