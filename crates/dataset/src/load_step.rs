//! The steps of a load.

/// Letters of the possible steps, in pgbench's order.
pub const STEPS: &str = "dtgGvpf";

/// One step of a load, named by pgbench's letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `d`: drop the tables.
    Drop,
    /// `t`: create the tables.
    CreateTables,
    /// `g`: make rows here and send them with COPY.
    GenerateHere,
    /// `G`: make rows in the server.
    GenerateInServer,
    /// `v`: vacuum.
    Vacuum,
    /// `p`: create primary keys.
    PrimaryKeys,
    /// `f`: create foreign keys.
    ForeignKeys,
}

impl Step {
    pub const DEFAULT: [Self; 5] =
        [Self::Drop, Self::CreateTables, Self::GenerateHere, Self::Vacuum, Self::PrimaryKeys];

    pub fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'd' => Self::Drop,
            't' => Self::CreateTables,
            'g' => Self::GenerateHere,
            'G' => Self::GenerateInServer,
            'v' => Self::Vacuum,
            'p' => Self::PrimaryKeys,
            'f' => Self::ForeignKeys,
            _ => return None,
        })
    }

    /// The message while the step runs.
    pub fn progress(self) -> &'static str {
        match self {
            Self::Drop => "dropping old tables...",
            Self::CreateTables => "creating tables...",
            Self::GenerateHere => "generating data (client-side)...",
            Self::GenerateInServer => "generating data (server-side)...",
            Self::Vacuum => "vacuuming...",
            Self::PrimaryKeys => "creating primary keys...",
            Self::ForeignKeys => "creating foreign keys...",
        }
    }

    pub fn letter(self) -> char {
        match self {
            Self::Drop => 'd',
            Self::CreateTables => 't',
            Self::GenerateHere => 'g',
            Self::GenerateInServer => 'G',
            Self::Vacuum => 'v',
            Self::PrimaryKeys => 'p',
            Self::ForeignKeys => 'f',
        }
    }

    /// Whether the contents of the tables differ after it.
    pub fn changes_rows(self) -> bool {
        matches!(self, Self::Drop | Self::CreateTables | Self::GenerateHere | Self::GenerateInServer)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop tables",
            Self::CreateTables => "create tables",
            Self::GenerateHere => "client-side generate",
            Self::GenerateInServer => "server-side generate",
            Self::Vacuum => "vacuum",
            Self::PrimaryKeys => "primary keys",
            Self::ForeignKeys => "foreign keys",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_has_a_step_of_its_own() {
        let steps: Vec<_> = STEPS.chars().filter_map(Step::from_letter).collect();
        assert_eq!(steps.len(), STEPS.len());
        for (at, step) in steps.iter().enumerate() {
            assert!(!steps[..at].contains(step), "{step:?}");
            assert_eq!(Some(step.letter()), STEPS.chars().nth(at));
        }
        assert_eq!(Step::from_letter(' '), None);
    }
}
