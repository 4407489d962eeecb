package ifneeded pgtcl_for_hammerdb 1.0 [list source [file join $dir pgtcl_for_hammerdb.tcl]]
# HammerDB's command line requires it for charts of its web service only.
package ifneeded ticklecharts 1.0 {package provide ticklecharts 1.0}
