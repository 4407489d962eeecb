//! sysbench's Lua scripts on pgdrive's clients.
//!
//! ```text
//! Script → Workload (options, command) → a State a worker → a coroutine a client
//! coroutine: user's event() → con:query() → yield → Session → Request → engine
//! ```
//!
//! One LuaJIT state for each worker serves all of its clients. A client is a coroutine with globals
//! of its own; the code of the script is compiled once for each state. `runtime/` contains the part
//! of the API that is written in Lua. A script is a program of the user's, as under sysbench.

mod driver;
mod error;
mod general_options;
mod lua_state;
mod memory_limit;
mod option_kinds;
mod options;
mod random_string;
mod script;
mod script_counters;
mod statement_cache;
mod statement_numbers;
mod statement_text;
mod watchdog;
mod workload;
mod workloads;

#[cfg(test)]
mod api_tests;
#[cfg(test)]
mod runtime_tests;
#[cfg(test)]
mod script_tests;

pub use error::ScriptError;
pub use general_options::connection;
pub use option_kinds::OptionValue;
pub use script::Script;
pub use statement_numbers::count as command_count;
pub use workload::{Hook, Settings, Task, Workload};
