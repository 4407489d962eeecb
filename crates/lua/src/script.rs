//! Finds a script's file where sysbench would, reads it, and compiles it into a chunk that clients share.

use std::path::{Path, PathBuf};

use mlua::{ChunkMode, Function, Lua, LuaOptions, StdLib};

use crate::error::ScriptError;

/// A script whose text contains none of these words cannot read rows, neither directly nor by loading other code.
const WORDS_OF_ROWS: [&str; 6] = ["fetch_row", "query_row", "nfields", "dofile", "loadfile", "loadstring"];

fn reads_rows(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    WORDS_OF_ROWS.iter().any(|word| text.contains(word))
}

/// A compiled function that creates instances of a script or a module.
pub(crate) struct Maker {
    /// Returns a function, which runs the script when called.
    pub function: Function,
    pub reads_rows: bool,
}

const INSTALLED: [&str; 2] = ["/usr/share/sysbench", "/usr/local/share/sysbench"];

/// The text of a script, and where it and its modules are searched for.
#[derive(Debug, Clone)]
pub struct Script {
    pub name: String,
    /// Path of its file; None for a workload of this crate.
    pub path: Option<PathBuf>,
    /// In any encoding, as for Lua itself.
    text: Vec<u8>,
    /// Folders in which modules are searched for, in order.
    folders: Vec<PathBuf>,
    /// Modules of this crate, by name; they come first.
    modules: &'static [(&'static str, &'static str)],
}

impl Script {
    /// Reads the script `name`, which is a path, with or without `.lua`, or the name of a script
    /// that is installed with sysbench.
    ///
    /// # Errors
    /// The file does not exist or cannot be read.
    pub fn find(name: &str) -> Result<Self, ScriptError> {
        let folders = folders_of(name);
        let path = candidates(name, &folders)
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| not_found(name, &folders))?;
        let text = std::fs::read(&path)
            .map_err(|error| ScriptError::new(format!("could not read script \"{}\": {error}", path.display())))?;
        Ok(Self { name: name.to_owned(), path: Some(path), text, folders, modules: &[] })
    }

    pub fn own(name: &str, text: &str, modules: &'static [(&'static str, &'static str)]) -> Self {
        Self { name: name.to_owned(), path: None, text: text.into(), folders: Vec::new(), modules }
    }

    /// Compiles the text without running it.
    ///
    /// # Errors
    /// It does not compile.
    pub fn compile(&self) -> Result<(), ScriptError> {
        let lua = Lua::new_with(StdLib::NONE, LuaOptions::new())?;
        self.maker(&lua)?;
        Ok(())
    }

    /// The function that makes a new instance of the script, which shares its code with all others.
    ///
    /// # Errors
    /// The script does not compile.
    pub(crate) fn maker(&self, lua: &Lua) -> mlua::Result<Maker> {
        let shown = match &self.path {
            Some(path) => path.display().to_string(),
            None => self.name.clone(),
        };
        maker(lua, &self.text, &shown)
    }

    /// The same for the module `name`; None if it has no file.
    ///
    /// # Errors
    /// The module does not compile, or cannot be read.
    pub(crate) fn module(&self, lua: &Lua, name: &str) -> mlua::Result<Option<Maker>> {
        if let Some((name, text)) = self.modules.iter().find(|(known, _)| *known == name) {
            return maker(lua, text.as_bytes(), name).map(Some);
        }
        let below = format!("{}.lua", name.replace('.', "/"));
        let Some(path) = self.folders.iter().map(|folder| folder.join(&below)).find(|path| path.is_file()) else {
            return Ok(None);
        };
        file(lua, &path).map(Some)
    }
}

/// The same for a file that a script names itself.
///
/// # Errors
/// It does not compile, or cannot be read.
pub(crate) fn file(lua: &Lua, path: &Path) -> mlua::Result<Maker> {
    let shown = path.display().to_string();
    let text = std::fs::read(path).map_err(|error| mlua::Error::runtime(format!("cannot open {shown}: {error}")))?;
    maker(lua, &text, &shown)
}

/// Compiles `text` as the body of a function that a function returns: each call returns a new closure with it.
fn maker(lua: &Lua, text: &[u8], shown: &str) -> mlua::Result<Maker> {
    // Lua accepts a byte order mark, and a first line for the shell, at the beginning only
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = match text.strip_prefix(b"#") {
        // the blank keeps a bracket from beginning a long comment
        Some(rest) => [b"-- ", rest].concat(),
        None => text.to_owned(),
    };
    let name = format!("@{shown}");
    // errors are reported for the text without the wrapper
    let compile = |text: &[u8]| {
        let chunk = lua.load(text).set_name(&name);
        chunk.set_mode(ChunkMode::Text).into_function()
    };
    compile(&text)?;
    let function = compile(&[b"return function(...) ", &text[..], b"\nend"].concat())?;
    Ok(Maker { function, reads_rows: reads_rows(&text) })
}

/// The name with `.lua` appended; None if it ends so already.
fn with_suffix(name: &str) -> Option<String> {
    (!name.ends_with(".lua")).then(|| format!("{name}.lua"))
}

/// Where modules are searched for: the script's folder, LUA_PATH, the current directory, sysbench's folders.
fn folders_of(name: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(parent) = Path::new(name).parent()
        && parent != Path::new("")
    {
        folders.push(parent.to_owned());
    }
    let given = std::env::var("LUA_PATH").unwrap_or_default();
    let given = given.split(';').filter_map(|pattern| pattern.strip_suffix("?.lua"));
    folders.extend(given.map(PathBuf::from));
    folders.push(PathBuf::from("."));
    let below = INSTALLED.iter().map(PathBuf::from);
    folders.extend(below.filter(|folder| folder.is_dir()));
    folders
}

fn candidates(name: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let names: Vec<String> = [Some(name.to_owned()), with_suffix(name)].into_iter().flatten().collect();
    let mut paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    if !name.contains('/') {
        for folder in folders {
            paths.extend(names.iter().map(|name| folder.join(name)));
        }
    }
    paths
}

fn not_found(name: &str, folders: &[PathBuf]) -> ScriptError {
    let too = with_suffix(name).map_or_else(String::new, |name| format!(" and \"{name}\""));
    let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    // a name that is a path is not searched for elsewhere
    let places = if name.contains('/') { String::new() } else { format!(" in: {}", looked.join(", ")) };
    ScriptError::new(format!("there is no Lua script \"{name}\""))
        .hint(format!("Looked for it{too}{places}. sysbench's own scripts come with the package sysbench."))
}
