//! Which single queries a load has: files, or those of TPC-H.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TpchSelection {
    Stream(usize),
    Validation,
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
    pub tpch: Option<TpchQueries>,
    pub rounds: u64,
    pub changes_texts: bool,
}
