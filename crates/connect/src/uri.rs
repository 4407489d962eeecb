//! Connection URIs: `postgresql://user:password@host:port,host:port/dbname?option=value`.

use crate::keyword::{self, Settings};
use crate::param_error::ParamError;

const PREFIXES: [&str; 2] = ["postgresql://", "postgres://"];

pub fn is_uri(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// Reads a connection URI.
///
/// # Errors
/// In libpq's words; the password is masked in them.
pub fn parse(uri: &str) -> Result<Settings, ParamError> {
    let mut settings = Settings::default();
    let body = PREFIXES.iter().find_map(|prefix| uri.strip_prefix(prefix)).ok_or_else(|| {
        let shown = mask(uri);
        ParamError::Other(format!("invalid URI propagated to internal parser routine: \"{shown}\""))
    })?;
    let rest = take_credentials(body, &mut settings)?;
    let rest = take_hosts(uri, rest, &mut settings)?;
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, query),
        None => (rest, ""),
    };
    if let Some(dbname) = path.strip_prefix('/').filter(|name| !name.is_empty()) {
        settings.set("dbname", decode(dbname, dbname)?)?;
    }
    take_query(query, &mut settings)?;
    Ok(settings)
}

fn take_credentials<'a>(body: &'a str, settings: &mut Settings) -> Result<&'a str, ParamError> {
    let end = body.find(['@', '/']).unwrap_or(body.len());
    let Some(rest) = body[end..].strip_prefix('@') else {
        return Ok(body);
    };
    let (user, password) = match body[..end].split_once(':') {
        Some((user, password)) => (user, password),
        None => (&body[..end], ""),
    };
    if !user.is_empty() {
        settings.set("user", decode(user, user)?)?;
    }
    if !password.is_empty() {
        settings.set("password", decode(password, "***")?)?;
    }
    Ok(rest)
}

fn take_hosts<'a>(uri: &str, body: &'a str, settings: &mut Settings) -> Result<&'a str, ParamError> {
    let (mut hosts, mut ports) = (String::new(), String::new());
    let mut rest = body;
    loop {
        let (host, tail) = take_host(uri, rest)?;
        hosts.push_str(host);
        rest = tail;
        if let Some(tail) = rest.strip_prefix(':') {
            let end = tail.find(['/', '?', ',']).unwrap_or(tail.len());
            ports.push_str(&tail[..end]);
            rest = &tail[end..];
        }
        let Some(tail) = rest.strip_prefix(',') else {
            break;
        };
        hosts.push(',');
        ports.push(',');
        rest = tail;
    }
    if !hosts.is_empty() {
        settings.set("host", decode(&hosts, &hosts)?)?;
    }
    if !ports.is_empty() {
        settings.set("port", decode(&ports, &ports)?)?;
    }
    Ok(rest)
}

fn take_host<'a>(uri: &str, rest: &'a str) -> Result<(&'a str, &'a str), ParamError> {
    let Some(inside) = rest.strip_prefix('[') else {
        let end = rest.find([':', '/', '?', ',']).unwrap_or(rest.len());
        return Ok(rest.split_at(end));
    };
    let Some((host, tail)) = inside.split_once(']') else {
        return Err(ParamError::Other(format!(
            "end of string reached when looking for matching \"]\" in IPv6 host address in URI: \"{}\"",
            mask(uri)
        )));
    };
    if host.is_empty() {
        return Err(ParamError::Other(format!("IPv6 host address may not be empty in URI: \"{}\"", mask(uri))));
    }
    match tail.chars().next() {
        None | Some(':' | '/' | '?' | ',') => Ok((host, tail)),
        Some(c) => Err(ParamError::Other(format!(
            "unexpected character \"{c}\" at position {} in URI (expected \":\" or \"/\"): \"{}\"",
            uri.len() - tail.len() + 1,
            mask(uri)
        ))),
    }
}

fn take_query(query: &str, settings: &mut Settings) -> Result<(), ParamError> {
    if query.is_empty() {
        return Ok(());
    }
    // One separator at the end is allowed, as libpq allows it.
    let query = query.strip_suffix('&').unwrap_or(query);
    for pair in query.split('&') {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(ParamError::Other(format!(
                "missing key/value separator \"=\" in URI query parameter: \"{pair}\""
            )));
        };
        if value.contains('=') {
            return Err(ParamError::Other(format!(
                "extra key/value separator \"=\" in URI query parameter: \"{name}\""
            )));
        }
        let name = decode(name, name)?;
        let shown = if is_secret(&name) { "***" } else { value };
        let value = decode(value, shown)?;
        match (name.as_str(), value.as_str()) {
            // JDBC's spelling.
            ("ssl", "true") => settings.set("sslmode", "require")?,
            (name, _) if keyword::is_known(name) => settings.set_or_translate(name, value)?,
            _ => return Err(ParamError::UnknownUriParameter(name)),
        }
    }
    Ok(())
}

/// Whether the values of this option must not be displayed.
pub(crate) fn is_secret(name: &str) -> bool {
    name.contains("password") || name.contains("secret") || name.contains("key")
}

/// Decodes `%XX`; spaces around the text are dropped, those inside are refused, as libpq 18 does.
/// an error displays `shown` in place of the text.
fn decode(text: &str, shown: &str) -> Result<String, ParamError> {
    let syntax = |message: String| Err(ParamError::Other(message));
    let bad_token = || syntax(format!("invalid percent-encoded token: \"{shown}\""));
    let trimmed = text.trim_matches(' ');
    let mut decoded = Vec::with_capacity(trimmed.len());
    let mut bytes = trimmed.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' => {
                return syntax(format!(
                    "unexpected spaces found in \"{shown}\", use percent-encoded spaces (%20) instead"
                ));
            }
            b'%' => {
                let (Some(high), Some(low)) = (hex(bytes.next()), hex(bytes.next())) else {
                    return bad_token();
                };
                if high == 0 && low == 0 {
                    return syntax(format!("forbidden value %00 in percent-encoded value: \"{shown}\""));
                }
                decoded.push(high << 4 | low);
            }
            byte => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).or_else(|_| bad_token())
}

fn hex(digit: Option<u8>) -> Option<u8> {
    let value = char::from(digit?).to_digit(16)?;
    u8::try_from(value).ok()
}

/// The URI with its passwords masked, for messages.
pub(crate) fn mask(uri: &str) -> String {
    let start = uri.find("://").map_or(0, |at| at + 3);
    let (head, body) = uri.split_at(start);
    let end = body.find(['@', '/']).unwrap_or(body.len());
    let (credentials, rest) = match body.split_at(end) {
        (credentials, rest) if rest.starts_with('@') => (credentials, rest),
        _ => ("", body),
    };
    let credentials = match credentials.split_once(':') {
        Some((user, _)) => format!("{user}:***"),
        None => credentials.to_owned(),
    };
    let rest = match rest.split_once('?') {
        Some((path, query)) => {
            let pairs: Vec<_> = query.split('&').map(mask_pair).collect();
            format!("{path}?{}", pairs.join("&"))
        }
        None => rest.to_owned(),
    };
    format!("{head}{credentials}{rest}")
}

fn mask_pair(pair: &str) -> String {
    match pair.split_once('=') {
        // A name that cannot be decoded might be that of a password.
        Some((name, _)) if decode(name, name).is_ok_and(|name| !is_secret(&name)) => pair.to_owned(),
        Some((name, _)) => format!("{name}=***"),
        None => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> String {
        match parse(uri) {
            Ok(settings) => {
                let pairs: Vec<_> = settings.iter().map(|(n, v)| format!("{n}={v}")).collect();
                pairs.join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn parts() {
        for (uri, expected) in [
            ("postgresql://", ""),
            ("postgres:///", ""),
            ("postgres:///db", "dbname=db"),
            ("postgresql://host", "host=host"),
            ("postgresql://host?", "host=host"),
            ("postgresql://u:p@h:1/d", "dbname=d host=h password=p port=1 user=u"),
            ("postgresql://u@", "user=u"),
            ("postgresql://u:@h", "host=h user=u"),
            ("postgres://@host", "host=host"),
            ("postgres://host:/", "host=host"),
            ("postgres://:12345/", "port=12345"),
            ("postgres://u:p:q@h", "host=h password=p:q user=u"),
            ("postgresql://[::1]:1/d", "dbname=d host=::1 port=1"),
            ("postgresql://[::1],h", "host=::1,h port=,"),
            ("postgresql://a:1,b:2/d", "dbname=d host=a,b port=1,2"),
            ("postgresql://a,b", "host=a,b port=,"),
            ("postgresql://%68ost/%64b", "dbname=db host=host"),
            ("postgres://%2Fvar%2Frun/d", "dbname=d host=/var/run"),
            ("postgres://u@:1/d?host=/x", "dbname=d host=/x port=1 user=u"),
            ("postgresql://h/d?u%73er=x&port=2", "dbname=d host=h port=2 user=x"),
            ("postgresql://h?ssl=true", "host=h sslmode=require"),
            ("postgresql://?dbname=a/b", "dbname=a/b"),
            ("postgresql://h/a/b", "dbname=a/b host=h"),
            ("postgresql://h/d?application_name=%20x%20", "application_name= x  dbname=d host=h"),
            ("postgresql://h/d?user=x&", "dbname=d host=h user=x"),
        ] {
            assert_eq!(read(uri), expected, "{uri}");
        }
    }

    #[test]
    fn errors_are_libpqs() {
        for (uri, expected) in [
            (
                "postgres://[::1",
                "end of string reached when looking for matching \"]\" in IPv6 host address in URI: \"postgres://[::1\"",
            ),
            ("postgres://[]", "IPv6 host address may not be empty in URI: \"postgres://[]\""),
            (
                "postgres://[::1]z",
                "unexpected character \"z\" at position 17 in URI (expected \":\" or \"/\"): \"postgres://[::1]z\"",
            ),
            ("postgresql://h?zzz", "missing key/value separator \"=\" in URI query parameter: \"zzz\""),
            ("postgresql://h?value1&value2", "missing key/value separator \"=\" in URI query parameter: \"value1\""),
            ("postgresql://h?&", "missing key/value separator \"=\" in URI query parameter: \"\""),
            ("postgresql://h?key=key=value", "extra key/value separator \"=\" in URI query parameter: \"key\""),
            ("postgresql://h/d?u%7aer=x", "invalid URI query parameter: \"uzer\""),
            ("postgres://h?dbname=%XXfoo", "invalid percent-encoded token: \"%XXfoo\""),
            ("postgresql://a%00b", "forbidden value %00 in percent-encoded value: \"a%00b\""),
            ("postgresql://%1", "invalid percent-encoded token: \"%1\""),
            ("postgresql://%", "invalid percent-encoded token: \"%\""),
            ("postgresql://h/%ff", "invalid percent-encoded token: \"%ff\""),
            ("postgresql://h/a b", "unexpected spaces found in \"a b\", use percent-encoded spaces (%20) instead"),
        ] {
            assert_eq!(read(uri), expected, "{uri}");
        }
        // passwords are masked
        for uri in [
            "postgres://u:hunter2@[]", "postgres://u:hunter2@[::1]z", "postgres://u:hunter2%zz@h",
            "postgres://h?password=hunter2%zz", "postgres://[]?password=hunter2", "postgres://[]?p%61ssword=hunter2",
            "postgres://[]?sslpassword=hunter2&x=y",
        ] {
            let message = parse(uri).err().expect(uri).to_string();
            assert!(!message.contains("hunter2"), "{message}");
            assert!(message.contains("***"), "{message}");
        }
    }
}
