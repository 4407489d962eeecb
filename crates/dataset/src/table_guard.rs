//! Refuses to drop tables that another application created.

/// A statement that fails if one of these tables exists without the column given with it, which another application's
/// table of the same name is unlikely to have. The names of `benchmark`'s tables are common ones.
pub(crate) fn guard(benchmark: &str, tables: &[(&str, &str)]) -> String {
    let row = |(table, column): &(&str, &str)| format!("('{table}', '{column}')");
    let rows: Vec<String> = tables.iter().map(row).collect();
    format!(
        "do $$ declare theirs text; begin \
         select string_agg(t.name, ', ') into theirs from (values {}) t(name, col) \
         where to_regclass(t.name) is not null and not exists (select from pg_catalog.pg_attribute a \
         where a.attrelid = to_regclass(t.name) and a.attname = t.col); \
         if theirs is not null then \
         raise exception 'there are tables of other columns than those of {benchmark}: %', theirs \
         using hint = 'Load into another database, or into a schema of its own by search_path.'; \
         end if; end $$",
        rows.join(", ")
    )
}
