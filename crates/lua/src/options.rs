//! Options of scripts: what a script declares, what sysbench has itself, what was given.

use mlua::{IntoLua, Lua, Table, Value};

use crate::error::ScriptError;

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// None was given, and the script has none.
    Nil,
    /// On or off.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any number.
    Double(f64),
    /// Text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// An option and its value when none is given.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionSpec {
    /// With underscores.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its default, which says its type too.
    pub default: OptionValue,
}

/// Values of all options, by name.
pub(crate) type OptionValues = Vec<(String, OptionValue)>;

/// Distributions of `--rand-type`.
const DISTRIBUTIONS: [&str; 5] = ["uniform", "gaussian", "special", "pareto", "zipfian"];

/// Modes of `--db-ps-mode`.
const PS_MODES: [&str; 2] = ["auto", "disable"];

fn spec(name: &str, description: &str, default: OptionValue) -> OptionSpec {
    OptionSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        default,
    }
}

/// sysbench's own options that scripts depend on, with its defaults.
fn general() -> Vec<OptionSpec> {
    use OptionValue::{Double, Int, Text};
    vec![
        spec(
            "rand_type",
            "distribution of sysbench.rand.default: uniform, gaussian, special, pareto or zipfian",
            Text("special".into()),
        ),
        spec(
            "rand_spec_iter",
            "uniform numbers a gaussian one is the mean of",
            Int(12),
        ),
        spec(
            "rand_spec_pct",
            "special: percent of the values that are special",
            Int(1),
        ),
        spec(
            "rand_spec_res",
            "special: percent of the draws that give a special value",
            Int(75),
        ),
        spec("rand_pareto_h", "pareto: parameter h", Double(0.2)),
        spec("rand_zipfian_exp", "zipfian: exponent", Double(0.8)),
        spec(
            "db_ps_mode",
            "prepared statements: auto, or disable to send their values within the text",
            Text("auto".into()),
        ),
    ]
}

impl IntoLua for OptionValue {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Nil => Ok(Value::Nil),
            Self::Bool(value) => value.into_lua(lua),
            Self::Int(value) => value.into_lua(lua),
            Self::Double(value) => value.into_lua(lua),
            Self::Text(value) => value.into_lua(lua),
            Self::List(values) => values.into_lua(lua),
        }
    }
}

/// What a script declares in `sysbench.cmdline.options`: name = {description, default, type}.
pub(crate) fn declared(table: &Table) -> Result<Vec<OptionSpec>, ScriptError> {
    let mut specs = Vec::new();
    for pair in table.pairs::<String, Value>() {
        let (name, entry) = pair?;
        let Value::Table(entry) = entry else {
            return Err(ScriptError::new(format!(
                "sysbench.cmdline.options.{name} is not a table of a description and a default"
            )));
        };
        let description = entry.get::<Option<String>>(1)?.unwrap_or_default();
        let default = default_of(&name, &entry.get::<Value>(2)?)?;
        let default = as_type(entry.get::<Option<i64>>(3)?, default);
        specs.push(OptionSpec {
            name: name.replace('-', "_"),
            description,
            default,
        });
    }
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(specs)
}

fn default_of(name: &str, value: &Value) -> Result<OptionValue, ScriptError> {
    Ok(match value {
        Value::Nil => OptionValue::Nil,
        Value::Boolean(value) => OptionValue::Bool(*value),
        Value::Integer(value) => OptionValue::Int(*value),
        Value::Number(value) => OptionValue::Double(*value),
        Value::String(value) => OptionValue::Text(value.to_string_lossy()),
        Value::Table(values) => {
            let values: Result<_, mlua::Error> = values.sequence_values::<String>().collect();
            OptionValue::List(values?)
        }
        _ => {
            let message = format!("the default of option {name} is neither a value nor a list");
            return Err(ScriptError::new(message));
        }
    })
}

/// A default in the type that the script names (`sysbench.option.DOUBLE`…).
fn as_type(kind: Option<i64>, default: OptionValue) -> OptionValue {
    match (kind, default) {
        (Some(3), OptionValue::Int(value)) => OptionValue::Double(value as f64),
        (Some(5), OptionValue::Nil) => OptionValue::List(Vec::new()),
        (_, default) => default,
    }
}

/// The values of all options: of the script's `declared` ones and of sysbench's own, `given` as
/// `name=value`.
///
/// # Errors
/// A name that nobody knows, or a value of another type.
pub(crate) fn resolve(
    script: &str,
    declared: &[OptionSpec],
    given: &[(String, String)],
) -> Result<OptionValues, ScriptError> {
    let general = general();
    let known: Vec<&OptionSpec> = declared.iter().chain(&general).collect();
    let mut values: OptionValues = known
        .iter()
        .map(|spec| (spec.name.clone(), spec.default.clone()))
        .collect();
    for (name, text) in given {
        let name = name.trim_start_matches('-').replace('-', "_");
        let Some(at) = known.iter().position(|spec| spec.name == name) else {
            return Err(unknown(script, &name, &known));
        };
        values[at].1 = parse(&name, text, &known[at].default)?;
    }
    for (option, what, allowed) in [
        ("rand_type", "distribution", &DISTRIBUTIONS[..]),
        ("db_ps_mode", "mode", &PS_MODES[..]),
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

fn unknown(script: &str, name: &str, known: &[&OptionSpec]) -> ScriptError {
    let names: Vec<_> = known
        .iter()
        .map(|spec| spec.name.replace('_', "-"))
        .collect();
    let message = format!(
        "script \"{script}\" has no option \"{}\"",
        name.replace('_', "-")
    );
    ScriptError::new(message).hint(format!("It has: {}.", names.join(", ")))
}

fn parse(name: &str, text: &str, default: &OptionValue) -> Result<OptionValue, ScriptError> {
    let wrong = |what: &str| {
        let name = name.replace('_', "-");
        ScriptError::new(format!("option {name}: \"{text}\" is not {what}"))
    };
    Ok(match default {
        OptionValue::Bool(_) => OptionValue::Bool(match text {
            "on" | "true" | "1" | "yes" | "" => true,
            "off" | "false" | "0" | "no" => false,
            _ => return Err(wrong("on or off")),
        }),
        OptionValue::Int(_) => {
            OptionValue::Int(whole(text).ok_or_else(|| wrong("a whole number"))?)
        }
        OptionValue::Double(_) => OptionValue::Double(text.parse().map_err(|_| wrong("a number"))?),
        OptionValue::Text(_) | OptionValue::Nil => OptionValue::Text(text.to_owned()),
        OptionValue::List(_) => {
            let items = text.split(',').filter(|item| !item.is_empty());
            OptionValue::List(items.map(str::to_owned).collect())
        }
    })
}

/// A whole number, with sysbench's suffixes K, M, G and T for powers of 1024.
fn whole(text: &str) -> Option<i64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.parse::<i64>().ok()?.checked_mul(1 << shift)
}

/// Lines that say what options a script has, for `help`.
pub(crate) fn describe(declared: &[OptionSpec]) -> Vec<String> {
    let line = |spec: &OptionSpec| {
        let name = spec.name.replace('_', "-");
        let default = match &spec.default {
            OptionValue::Nil => String::new(),
            OptionValue::Bool(value) => format!(" [{}]", if *value { "on" } else { "off" }),
            OptionValue::Int(value) => format!(" [{value}]"),
            OptionValue::Double(value) => format!(" [{value}]"),
            OptionValue::Text(value) => format!(" [{value}]"),
            OptionValue::List(values) => format!(" [{}]", values.join(",")),
        };
        format!("  --lua-opt {name}=…  {}{default}", spec.description)
    };
    declared.iter().chain(&general()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(given: &[(&str, &str)]) -> Result<OptionValues, ScriptError> {
        let declared = [
            spec("tables", "", OptionValue::Int(1)),
            spec("skip_trx", "", OptionValue::Bool(false)),
            spec("share", "", OptionValue::Double(0.5)),
            spec("variant", "", OptionValue::Nil),
            spec("hosts", "", OptionValue::List(vec![])),
        ];
        let given: Vec<_> = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        resolve("a.lua", &declared, &given)
    }

    #[test]
    fn values_have_the_type_of_the_default() {
        let values = resolved(&[
            ("tables", "2K"),
            ("skip-trx", "on"),
            ("share", "1"),
            ("variant", "redshift"),
            ("hosts", "a,b"),
        ])
        .expect("they fit");
        assert_eq!(values[0].1, OptionValue::Int(2048));
        assert_eq!(values[1].1, OptionValue::Bool(true));
        assert_eq!(values[2].1, OptionValue::Double(1.0));
        assert_eq!(values[3].1, OptionValue::Text("redshift".into()));
        assert_eq!(values[4].1, OptionValue::List(vec!["a".into(), "b".into()]));
        assert!(values.contains(&("rand_spec_res".to_owned(), OptionValue::Int(75))));
    }

    #[test]
    fn what_is_not_known_or_of_another_type_is_refused() {
        for (name, value, message) in [
            ("table", "1", "script \"a.lua\" has no option \"table\""),
            (
                "tables",
                "many",
                "option tables: \"many\" is not a whole number",
            ),
            (
                "skip_trx",
                "maybe",
                "option skip-trx: \"maybe\" is not on or off",
            ),
            (
                "rand-type",
                "odd",
                "option rand-type: there is no distribution \"odd\"",
            ),
        ] {
            let error = resolved(&[(name, value)]).expect_err(name);
            assert_eq!(error.message, message);
        }
    }
}
