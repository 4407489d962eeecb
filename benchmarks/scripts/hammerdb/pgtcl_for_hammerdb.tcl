# Any Pgtcl, with the interface of pgtclng, which HammerDB's releases include.
package require Pgtcl
package provide pgtcl_for_hammerdb 1.0

if {[info commands pg_notice_handler] eq ""} {
    proc pg_notice_handler {connection args} {}
    rename pg_exec_prepared pg_exec_prepared_of_pgtcl
    # pgtclng has formats of results and of arguments before the values.
    proc pg_exec_prepared {connection statement result_formats formats args} {
        pg_exec_prepared_of_pgtcl $connection $statement {*}$args
    }
}
