//! Options of scripts: those that a script declares, those of sysbench itself, and those that were given.

use mlua::Value;

use crate::error::ScriptError;
use crate::general_options::{elsewhere, general};
use crate::option_kinds::{Kind, OptionSpec, OptionValue, key};

pub(crate) type OptionValues = Vec<(String, OptionValue)>;

const DISTRIBUTIONS: [&str; 5] = ["uniform", "gaussian", "special", "pareto", "zipfian"];

const PS_MODES: [&str; 2] = ["auto", "disable"];

/// The options that a script declares in `sysbench.cmdline.options`: name = {description, default,
/// type, validation}. Sorted by name.
///
/// # Errors
/// The table has another form.
pub(crate) fn declared(options: &Value) -> Result<Vec<OptionSpec>, ScriptError> {
    let Value::Table(table) = options else {
        return Err(ScriptError::new(format!(
            "sysbench.cmdline.options has to be a table, and is of type {}",
            options.type_name()
        )));
    };
    let mut specs = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (name, entry) = pair?;
        let Value::String(name) = name else {
            return Err(ScriptError::new(format!(
                "sysbench.cmdline.options has a name of an option that is no text, but of type {}",
                name.type_name()
            )));
        };
        specs.push(spec_of(&name.to_string_lossy(), &entry)?);
    }
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(specs)
}

fn spec_of(name: &str, entry: &Value) -> Result<OptionSpec, ScriptError> {
    let wrong = |what: &str| ScriptError::new(format!("sysbench.cmdline.options.{name} {what}"));
    let Value::Table(entry) = entry else {
        return Err(wrong("is not a table of a description and a default"));
    };
    let Some(description) = entry.get::<Option<String>>(1)? else {
        return Err(wrong("has no description"));
    };
    let default = entry.get::<Value>(2)?;
    let kind = match (entry.get::<Option<i64>>(3)?, &default) {
        (Some(7), _) => return Err(wrong("is a file of options: pgdrive reads none")),
        (Some(number), _) => {
            Kind::numbered(number).ok_or_else(|| wrong("has a type that is none of sysbench.cmdline.ARG_..."))?
        }
        (None, Value::Boolean(_)) => Kind::Bool,
        (None, Value::Integer(_) | Value::Number(_)) => Kind::Double,
        (None, Value::String(_) | Value::Nil) => Kind::Text,
        (None, Value::Table(_)) => Kind::List,
        _ => return Err(wrong("has a default that is neither a value nor a list")),
    };
    let shown = match &default {
        Value::Nil => None,
        Value::Boolean(true) => Some("on".to_owned()),
        Value::Boolean(false) => Some("off".to_owned()),
        Value::Table(values) => {
            let values: Result<Vec<_>, mlua::Error> = values.sequence_values::<String>().collect();
            Some(values?.join(","))
        }
        _ => Some(entry.get::<String>(2)?),
    };
    // an empty text is no value, as in sysbench
    let given = shown.as_deref().filter(|text| !text.is_empty());
    let default = match given {
        None => kind.without_default(),
        Some(text) => {
            kind.parse(text).map_err(|what| wrong(&format!("has the default \"{text}\", which is not {what}")))?
        }
    };
    // our own workloads declare ranges; sysbench has no such field
    let range = entry.get::<Option<f64>>("least")?.zip(entry.get::<Option<f64>>("most")?);
    Ok(OptionSpec { name: name.to_owned(), description, kind, shown, default, range })
}

/// The values of all options, those `declared` by the script and sysbench's own, with the `given` ones. A script
/// without declarations accepts any name, as in sysbench 1.0; names that are not sysbench's are texts then.
///
/// # Errors
/// A name is unknown, or a value has another type.
pub(crate) fn resolve(
    script: &str, declared: Option<&[OptionSpec]>, given: &[(String, String)],
) -> Result<OptionValues, ScriptError> {
    let general = general();
    let own = declared.unwrap_or_default();
    // an option that the script declares replaces sysbench's of the same name
    let others = general.iter().filter(|spec| own.iter().all(|known| known.key() != spec.name));
    let known: Vec<&OptionSpec> = own.iter().chain(others).collect();
    let mut values: OptionValues = known.iter().map(|spec| (spec.key(), spec.default.clone())).collect();
    for (given_name, text) in given {
        let name = key(given_name);
        if let Some(at) = known.iter().position(|spec| spec.key() == name) {
            values[at].1 = known[at].parse(text).map_err(|what| {
                let name = known[at].dashed();
                ScriptError::new(format!("option {name}: \"{text}\" is not {what}"))
            })?;
        } else if let Some(hint) = elsewhere(&name) {
            let message = format!("{}: not an option of scripts", invalid(&name, text));
            return Err(ScriptError::new(message).hint(hint));
        } else if declared.is_none() {
            values.push((name, OptionValue::Text(text.clone())));
        } else {
            return Err(unknown(script, &name, text, &known));
        }
    }
    for (option, what, allowed) in [
        ("rand_type", "distribution", &DISTRIBUTIONS[..]),
        ("db_ps_mode", "mode", &PS_MODES[..]),
        ("db_driver", "driver", &["pgsql"][..]),
    ] {
        let value = values.iter().find(|(name, _)| name == option);
        if let Some((_, OptionValue::Text(value))) = value
            && !allowed.contains(&value.as_str())
        {
            let option = option.replace('_', "-");
            let message = format!("option {option}: there is no {what} \"{value}\"");
            let hint = format!("Give one of: {}.", allowed.join(", "));
            return Err(ScriptError::new(message).hint(hint));
        }
    }
    Ok(values)
}

/// The beginning of sysbench's message for an invalid option.
pub(crate) fn invalid(name: &str, text: &str) -> String {
    format!("invalid option: --{}={text}", name.replace('_', "-"))
}

fn unknown(script: &str, name: &str, text: &str, known: &[&OptionSpec]) -> ScriptError {
    let names: Vec<_> = known.iter().map(|spec| spec.dashed()).collect();
    let message = format!("{}: script \"{script}\" has no option \"{}\"", invalid(name, text), name.replace('_', "-"));
    ScriptError::new(message).hint(format!("It has: {}.", names.join(", ")))
}

pub(crate) fn sysbench_lines(declared: &[OptionSpec]) -> String {
    let head = |spec: &OptionSpec| format!("  --{}{}", spec.name, spec.kind.form());
    let width = declared.iter().map(|spec| head(spec).len()).max();
    let width = width.unwrap_or(0) + 1;
    let mut lines = String::new();
    for spec in declared {
        let default = spec.shown.as_ref();
        let default = default.map_or_else(String::new, |text| format!(" [{text}]"));
        let head = head(spec);
        lines.push_str(&format!("{head:width$}{}{default}\n", spec.description));
    }
    lines.push('\n');
    lines
}

/// The lines of `help` about a script's options.
pub(crate) fn describe(declared: &[OptionSpec]) -> Vec<String> {
    let line = |spec: &OptionSpec| {
        let default = spec.shown.as_ref();
        let default = default.map_or_else(String::new, |text| format!(" [{text}]"));
        format!("  --lua-opt {}=…  {}{default}", spec.dashed(), spec.description)
    };
    declared.iter().chain(&general()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, kind: Kind, default: Option<&str>) -> OptionSpec {
        OptionSpec::new(name, &format!("what {name} is"), kind, default)
    }

    fn specs() -> [OptionSpec; 7] {
        [
            spec("tables", Kind::Double, Some("1")),
            spec("skip_trx", Kind::Bool, Some("off")),
            spec("share", Kind::Double, Some("0.5")),
            spec("variant", Kind::Text, None),
            spec("hosts", Kind::List, None),
            spec("block-size", Kind::Size, Some("1K")),
            spec("count", Kind::Int, None),
        ]
    }

    fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        given.iter().map(owned).collect()
    }

    fn resolved(given: &[(&str, &str)]) -> Result<OptionValues, ScriptError> {
        resolve("a.lua", Some(&specs()), &pairs(given))
    }

    #[test]
    fn values_have_the_type_of_the_option_if_the_script_declares_any() {
        use OptionValue::{Bool, Double, Int, List, Text};
        let values = resolved(&[
            ("tables", "2K"),
            ("skip-trx", "on"),
            ("share", "1"),
            ("variant", "redshift"),
            ("hosts", "a,b"),
            ("block_size", "3m"),
            ("--count", "-7"),
            ("rand-pareto-h", "0.25"),
        ])
        .expect("they fit");
        let named = |name: &str| &values.iter().find(|(key, _)| key == name).expect(name).1;
        for (name, value) in [
            ("tables", Int(2048)),
            ("skip_trx", Bool(true)),
            ("share", Int(1)),
            ("variant", Text("redshift".into())),
            ("hosts", List(vec!["a".into(), "b".into()])),
            ("block_size", Int(3 << 20)),
            ("count", Int(-7)),
            ("rand_pareto_h", Double(0.25)),
            ("rand_spec_res", Int(75)),
            ("pgsql_db", Text(String::new())),
        ] {
            assert_eq!(*named(name), value, "{name}");
        }
        let values = resolved(&[("tables", "1.5")]).expect("any number");
        assert_eq!(values[0].1, Double(1.5));
        assert_eq!(values[3].1, Text(String::new()));
        // a script that declares nothing takes any name
        let given = pairs(&[("oltp-table-size", "500"), ("rand-type", "uniform")]);
        let values = resolve("a.lua", None, &given).expect("any name will do");
        let text = |text: &str| OptionValue::Text(text.to_owned());
        assert!(values.contains(&("oltp_table_size".to_owned(), text("500"))));
        assert!(values.contains(&("rand_type".to_owned(), text("uniform"))));
        assert!(resolve("a.lua", Some(&[]), &given).is_err());
    }

    #[test]
    fn what_is_not_known_or_of_another_type_is_refused() {
        for (name, value, message) in [
            ("table", "1", "invalid option: --table=1: script \"a.lua\" has no option \"table\""),
            ("tables", "many", "option tables: \"many\" is not a number"),
            ("skip_trx", "maybe", "option skip-trx: \"maybe\" is not on or off"),
            ("count", "1K", "option count: \"1K\" is not a whole number of 32 bits"),
            ("block-size", "-1", "option block-size: \"-1\" is not a size such as 4096 or 16K"),
            ("share", "nan", "option share: \"nan\" is not a number"),
            ("share", "inf", "option share: \"inf\" is not a number"),
            ("rand-spec-iter", "0", "option rand-spec-iter: \"0\" is not a number from 1 to 1000000"),
            ("rand-zipfian-exp", "1e300", "option rand-zipfian-exp: \"1e300\" is not a number from 0 to 100"),
            ("rand-pareto-h", "-1", "option rand-pareto-h: \"-1\" is not a number from 0.000001 to 0.999999"),
            ("rand-type", "odd", "option rand-type: there is no distribution \"odd\""),
            ("db-driver", "mysql", "option db-driver: there is no driver \"mysql\""),
            ("threads", "4", "invalid option: --threads=4: not an option of scripts"),
        ] {
            assert_eq!(resolved(&[(name, value)]).expect_err(name).message, message);
        }
        let error = resolved(&[("mysql-host", "a")]).expect_err("it is another server's");
        assert!(error.hint.expect("a hint").contains("pgsql-"));
    }
}
