//! Which single queries a load has: files, or those of TPC-H.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TpchSelection {
    Stream(usize),
    /// Those of the specification's validation.
    Validation,
    /// One of these, by its number.
    One(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub struct TpchQueries {
    pub selection: TpchSelection,
    pub scale_factor: f64,
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct QueriesChoice {
    /// Files, or `Q1` to `Q22`.
    pub names: Vec<String>,
    /// None if they are files.
    pub tpch: Option<TpchQueries>,
    /// How many times each runs as it is.
    pub rounds: u64,
    pub changes_texts: bool,
}
