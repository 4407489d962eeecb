"""Functions of PostgreSQL by what a call of them writes. A call of any other function may write."""

WRITING_FUNCTIONS = frozenset(["nextval", "setval"])
_HARMLESS = """
    count sum avg min max array_agg string_agg json_agg jsonb_agg json_object_agg jsonb_object_agg bool_and bool_or
    every stddev stddev_pop stddev_samp variance var_pop var_samp corr mode percentile_cont percentile_disc
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
    abs ceil ceiling div exp floor ln log mod pi power random round sign sqrt trunc width_bucket
    ascii btrim char_length character_length chr concat concat_ws decode encode format initcap left length lower lpad
    ltrim md5 octet_length overlay position quote_ident quote_literal regexp_match regexp_matches regexp_replace
    regexp_split_to_array regexp_split_to_table repeat replace reverse right rpad rtrim sha256 split_part starts_with
    string_to_array strpos substr substring to_char to_date to_hex to_number to_timestamp translate upper hashtext
    age clock_timestamp date_part date_trunc extract make_date make_interval make_timestamp now statement_timestamp
    transaction_timestamp
    array_append array_length array_position array_to_string cardinality generate_series generate_subscripts unnest
    json_array_elements json_build_object json_each jsonb_array_elements jsonb_build_object jsonb_each row_to_json
    to_json to_jsonb to_tsquery to_tsvector plainto_tsquery websearch_to_tsquery ts_rank
    current_database current_schema current_setting pg_backend_pid pg_is_in_recovery pg_size_pretty pg_sleep version
    pg_database_size pg_relation_size pg_table_size pg_total_relation_size
"""
HARMLESS_FUNCTIONS = frozenset(_HARMLESS.split())
"""Those of the schema pg_catalog that loads commonly call, and that write nothing."""
_NO_FUNCTIONS = """
    all and any array as between by case cast coalesce cross cube distinct else except exists filter from greatest group
    grouping having ilike in inner intersect is join lateral least like limit materialized natural not nullif of offset
    on or order over partition returning row rows select sets similar some table tablesample then trim union using
    values when where with within bernoulli system rollup xmlelement
    bit char character decimal dec float interval numeric time timestamp varchar varying
"""
NO_FUNCTIONS = frozenset(_NO_FUNCTIONS.split())
"""Words that precede a parenthesis without being a function's name."""
