//! Variables in the text of SQL.
//!
//! `:name` is a variable everywhere, even within quotes. A colon after a colon does not begin one,
//! so `::type` remains unchanged.

use crate::error::CompileError;
use crate::program::{Piece, QueryMode, Sql};
use crate::vars::{Symbols, is_name_byte};

/// The most variables of a statement in the extended protocols.
const MAX_PARAMS: usize = 255;

pub(crate) fn substitute(sql: &str, mode: QueryMode, symbols: &mut Symbols) -> Result<Sql, CompileError> {
    match mode {
        QueryMode::Simple => Ok(Sql::Simple(pieces(sql, symbols))),
        QueryMode::Extended | QueryMode::Prepared => number_parameters(sql, symbols),
    }
}

/// Splits text at the next variable: the text before it, its name, and the rest.
fn split_variable(text: &str) -> Option<(&str, &str, &str)> {
    let bytes = text.as_bytes();
    let mut colon = 0;
    loop {
        colon += bytes[colon..].iter().position(|b| *b == b':')?;
        let start = colon + 1;
        let length = bytes[start..].iter().take_while(|b| is_name_byte(**b)).count();
        if length > 0 && !bytes[start].is_ascii_digit() {
            let end = start + length;
            return Some((&text[..colon], &text[start..end], &text[end..]));
        }
        colon += bytes[colon..].iter().take_while(|b| **b == b':').count();
    }
}

fn pieces(sql: &str, symbols: &mut Symbols) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = sql;
    while let Some((before, name, behind)) = split_variable(rest) {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.into()));
        }
        let source = format!(":{name}").into();
        pieces.push(Piece::Var { slot: symbols.slot(name), source });
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    pieces
}

fn number_parameters(sql: &str, symbols: &mut Symbols) -> Result<Sql, CompileError> {
    let mut text = String::with_capacity(sql.len());
    let mut params = Vec::new();
    let mut rest = sql;
    while let Some((before, name, behind)) = split_variable(rest) {
        if params.len() == MAX_PARAMS {
            return Err(CompileError::TooManyArguments { sql: sql.to_owned() });
        }
        params.push(symbols.slot(name));
        text.push_str(before);
        text.push_str(&format!("${}", params.len()));
        rest = behind;
    }
    text.push_str(rest);
    Ok(Sql::Extended { sql: text, params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_is_a_parameter() {
        for (sql, expected, names) in [
            ("SELECT :a::int, x::text", "SELECT $1::int, x::text", &["a"][..]),
            ("SELECT a[1:n], :1, : , :", "SELECT a[1$1], :1, : , :", &["n"]),
            ("SELECT :::a :é.b", "SELECT :::a $1.b", &["é"]),
            ("SELECT x:=:a", "SELECT x:=$1", &["a"]),
        ] {
            let mut symbols = Symbols::new();
            let mode = QueryMode::Extended;
            let Ok(Sql::Extended { sql: text, params }) = substitute(sql, mode, &mut symbols) else { panic!("{sql}") };
            let found: Vec<&str> = params.iter().map(|slot| symbols.name(*slot)).collect();
            assert_eq!((text.as_str(), found.as_slice()), (expected, names));
        }
    }

    #[test]
    fn at_most_255_parameters() {
        let sql = |count: usize| format!("SELECT {}", vec![":i"; count].join(", "));
        let mut symbols = Symbols::new();
        assert!(substitute(&sql(255), QueryMode::Prepared, &mut symbols).is_ok());
        let error = substitute(&sql(256), QueryMode::Prepared, &mut symbols).unwrap_err();
        assert_eq!(error.to_string(), format!("statement has too many arguments (maximum is 255): {}", sql(256)));
        assert!(substitute(&sql(256), QueryMode::Simple, &mut symbols).is_ok());
    }
}
