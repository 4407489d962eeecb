"""Tests that repeat a proof for other versions, methods and moments, or need long inputs: `make test-long` runs them,
`make test` does not.

`make test` has 20 minutes on two cores. Each line names, by a text that is searched for in the test's id, cases of a
test whose code other tests run as well, and tests of memory. CI runs all of them each night.
"""

from __future__ import annotations

import os
import subprocess

HAS_NAMESPACES = os.geteuid() == 0 and not subprocess.run(["unshare", "-n", "true"], check=False).returncode
"""Whether test_generator_hosts.py can test what happens when a generator is lost."""
FAULTS_OF_ONE_MACHINE = (r"test_cluster.py::test_a_(frozen_node|killed_node|driver_that_is_killed)",)
LONG = (
    r"test_cluster_analysis.py::test_pages_are_the_same",
    r"test_without_amazon.py::test_unit_tests_not_about_amazon_pass",
    r"test_sbtest.py::test_every_way_brings_the_same_rows_back\[snapshot\]",
    r"test_tpcc_plan.py::test_every_trial_begins_with_the_rows_of_the_load\[template\]",
    r"test_sweep_runs.py::test_a_kept_plan_comes_to_the_same_trials",
    r"test_pgbench_init.py::test_chunks_over_many_connections_make_the_same\[-s 3 -F 70\]",
    r"test_target_versions.py::.*\[(10-vacuum|10-template|10-snapshot|13-vacuum|13-snapshot|18-template|18-snapshot)\]",
    r"test_events.py::test_clients_follow_a_replica_that_takes_over\[(13|10)\]",
    r"test_reset_runs.py::test_a_later_run_finds_what_an_earlier_one_made\[template\]",
    r"test_reset_runs.py::test_a_run_ended_in_the_midst_loses_nothing\[(template-copying|reload).*\]",
    r"test_reset_runs.py::test_a_run_ended_while_it_copies",
    r"test_tpcc_plan.py::test_every_trial_begins_with_the_rows_of_the_load\[reload\]",
    r"test_tpcc_run.py::test_killed_clients_leave_no_half_transaction\[(spec-.*|hammerdb-procedures)\]",
    r"test_replica_load.py::.*\[13\]",
    r"test_probe.py::.*\[13\]",
    r"test_aws_runs.py::test_(a_run_that_is_terminated|selftest|up_status_run_and_down_on_rds)",
    r"test_aws_ec2_runs.py::test_selftest_of_a_host",
    r"test_aws_hosts_boot.py::",
    r"test_target_build.py::test_a_server_by_meson",
    r"test_resume.py::test_(resuming_with_another_kernel|failed_trials|a_run_that_ended_after_its_last|a_script_that_was)",
    r"test_resume.py::test_ctrl_c",
    r"test_analyse_compare_rates.py::test_95_of_100.*\[(normal-10|normal-20|checkpoints-6|checkpoints-20)\]",
    r"test_cluster.py::test_(three_nodes|a_point_of_few_clients|a_load_that_is_told_to_stop|a_cluster_wants_its_token)",
    r"test_cluster_analysis.py::test_a_task_killed_for_lack",
    r"test_generators_ray.py::",
    r"test_generator_hosts.py::test_runs_are_analysed",
    r"test_generator_hosts.py::test_a_host_that_cannot_be_one_says_why\[(keyless|closed|rayless)",
    *(FAULTS_OF_ONE_MACHINE if HAS_NAMESPACES else ()),
    r"test_snapshot_methods.py::test_the_cluster_comes_back\[reflink\]",
    r"test_fuzz.py::.*\[long\]",
    r"test_benchmarks.py::",
    r"test_store_azure.py::",
    r"test_pool.py::",
    r"test_catalogue_everywhere.py::",
    r"test_docs_commands.py::.*\[(tutorial|latency|sysbench|compare-settings|github-actions|moving)\]",
    r"test_docs_commands.py::.*\[own-load-(replay|model)\]",
    r"test_target_hostile.py::.*falls_silent.*\[(asked for its settings-F|given rows-|asked to vacuum-)",
    r"test_probe_versions.py::test_every_source_of_every_version_answers\[1[1-7]\]",
    r"test_aws_ec2_runs.py::test_the_(load_comes_from_two_hosts_and_one_is_lost|cheapest_host_of_two_families)",
    r"test_aws_runs.py::test_a_snapshot_of_the_loaded_server",
    r"test_synthesise.py::test_a_model_of_tpcc",
    r"test_attached_search.py::test_a_killed_search_that_goes_on",
    r"test_settings_search.py::test_a_server_that_pgdyno_did_not_start",
    r"test_search.py::test_a_peak_is_found_again",
    r"test_duet.py::test_a_duet_stops_when_it_is_decided",
    r"test_answer.py::.*\[(one arm|rate)\]",
    r"test_budget.py::test_a_trial_of_tpch",
    r"test_tpch_resume.py::",
    r"test_live.py::test_stop_now",
    r"test_cluster_analysis.py::test_an_import_is_the_same",
    r"test_capture_server.py::test_statistics_are_what_ran_and_each_remedy_works\[1[4-7]\]",
    r"test_query_plans.py::test_every_version_explains_without_executing\[1[1-7]\]",
    r"test_automatic_workers.py::test_the_books_balance_while_threads_are_added\[(reconnecting|open)\]",
    r"test_replay_runs.py::test_a_captured_load_is_the_same_load_again\[simple\]",
    r"test_pgbench_init.py::test_pgbench_and_pgdrive_make_the_same\[(-q|-s (3|20000)|--unlogged-tables -I)",
    r"test_pgbench_init.py::test_pgbench_and_pgdrive_make_the_same\[(--partitions=(7|1|0)|--tablespace=.*--part)",
    r"test_pgbench_init.py::test_chunks_over_many_connections.*\[(-I dtpfgvg|-n|--partitions=7|--tablespace)",
    r"test_tpcc_run.py::test_the_database_has_what_the_driver_counted\[spec-(sql|procedures)\]",
    r"test_tpcc_run.py::test_earlier_releases_treat_an_unused_item_in_their_way\[hammerdb-6.0\]",
    r"test_tpcc_run.py::test_generators_together_have_the_users_of_one\[hammerdb\]",
    r"test_probe_ssh.py::test_a_host_whose_key_nobody_knows",
    r"test_leftovers.py::test_statements_of_a_killed_engine_end",
    r"test_audit_runs.py::test_a_standby_that_does_not_replay_is_seen\[ALTER",
    r"test_events.py::test_a_crash_takes_away_only_what_was_not_yet_on_disk\[on\]",
    r"test_probe_client_waits.py::.*\[1[03]\]",
    r"test_gate_confirm.py::test_a_regression_is_confirmed",
    r"test_third_party.py::test_the_wheel_carries_them",
    r"test_capture_memory.py::",
    r"test_capture_bad_logs.py::test_small_blocks",
    r"test_source_distribution.py::",
    r"test_store_probed.py::test_memory",
    r"test_capture_replay_file.py::test_memory",
    r"test_event_spool.py::test_a_long_trial",
    r"test_tpch.py::test_the_answers_at_scale_1",
    r"test_minimal_wal.py::test_a_server_that_is_killed_while_it_loads",
    r"test_query_plans.py::test_the_queries_of_tpch_are_always_explained",
    r"test_target_template.py::test_a_broken_template",
    r"test_tpcc_load.py::test_half_of_hammerdbs_customers",
    r"test_minimal_wal.py::test_a_load_leaves_the_same_with_and_without_wal\[tpcc\]",
    r"test_minimal_wal.py::test_a_kept_cluster_whose_run_is_killed_while_it_loads\[pgdyno and its server\]",
)
SLOW = (
    # simulations of chance
    r"test_analyse_compare_rates.py::",
    r"test_analyse_steady.py::test_(percentile_intervals|noise)",
    r"test_cheapest_order.py::",
    r"test_search_machines.py::",
    r"test_settings_search.py::test_a_search_",
    r"test_stopping.py::test_levels",
    r"test_synthesise_fits.py::",
    # processes
    r"test_store_trial.py::test_trials_committed",
)
"""What `make check` leaves out, too: a sixth of the processor time of the other tests/unit, in 57 of 4,100 tests."""
SLOWEST = ("test_generator_hosts.py",)
"""Files of few tests that take minutes. They start first, so that none of them runs alone at the end."""
