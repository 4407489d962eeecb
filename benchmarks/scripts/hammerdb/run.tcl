# Run by HammerDB's command line: builds its tables, or runs its timed load. The environment has the options.
dict set dbdict postgresql library pgtcl_for_hammerdb
dbset db pg
dbset bm TPC-C
diset connection pg_host $env(PGHOST)
diset connection pg_port $env(PGPORT)
diset connection pg_sslmode disable
diset tpcc pg_superuser $env(PGUSER)
diset tpcc pg_superuserpass $env(PGPASSWORD)
diset tpcc pg_defaultdbase postgres
diset tpcc pg_user tpcc
diset tpcc pg_pass $env(PGPASSWORD)
diset tpcc pg_dbase $env(PGDATABASE)
diset tpcc pg_storedprocs $env(HAMMERDB_PROCEDURES)
if {[info exists env(HAMMERDB_WAREHOUSES)]} {
    diset tpcc pg_count_ware $env(HAMMERDB_WAREHOUSES)
    diset tpcc pg_num_vu $env(HAMMERDB_USERS)
    buildschema
} else {
    diset tpcc pg_driver timed
    diset tpcc pg_rampup $env(HAMMERDB_RAMPUP_MINUTES)
    diset tpcc pg_duration $env(HAMMERDB_MINUTES)
    diset tpcc pg_raiseerror true
    loadscript
    vuset vu $env(HAMMERDB_USERS)
    vucreate
    vurun
    vudestroy
}
