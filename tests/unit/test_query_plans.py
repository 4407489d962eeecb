"""Query plans: the shape that is compared, the statements that have a plan, and the changes between arms."""

import pytest

from pgdyno.effect import has_plan
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe.explain import shape_of

SEQUENTIAL = {"Node Type": "Seq Scan", "Relation Name": "t", "Parent Relationship": "Outer"}
BY_INDEX = {"Node Type": "Index Scan", "Relation Name": "t", "Index Name": "t_pkey", "Scan Direction": "Forward"}
JOIN = {"Node Type": "Hash Join", "Join Type": "Inner", "Plans": [SEQUENTIAL, BY_INDEX]}


def test_a_shape_is_nodes_relations_indexes_joins_and_their_order() -> None:
    """Costs, and names that differ between versions, are not part of it."""
    for plan, same in (
        (JOIN | {"Total Cost": 8.5, "Plan Rows": 1, "Plan Width": 4, "Hash Cond": "(a.id = b.id)"}, True),
        # of a later version: a key that others lack, other numbers of aliases
        (JOIN | {"Async Capable": False, "Disabled": False, "Alias": "t_1"}, True),
        (JOIN | {"Plans": [SEQUENTIAL | {"Parent Relationship": "Member"}, BY_INDEX]}, True),
        # a hash index before version 16
        (JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Scan Direction": "NoMovement"}]}, True),
        (JOIN | {"Node Type": "Nested Loop"}, False),
        (JOIN | {"Join Type": "Left"}, False),
        (JOIN | {"Plans": [BY_INDEX, SEQUENTIAL]}, False),
        (JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Index Name": "t_kind"}]}, False),
        (JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Scan Direction": "Backward"}]}, False),
        (JOIN | {"Plans": [SEQUENTIAL | {"Relation Name": "u"}, BY_INDEX]}, False),
        (JOIN | {"Plans": [SEQUENTIAL | {"Parent Relationship": "SubPlan"}, BY_INDEX]}, False),
        (JOIN | {"Plans": [SEQUENTIAL | {"Parallel Aware": True}, BY_INDEX]}, False),
    ):
        assert (shape_of([{"Plan": plan}]) == shape_of([{"Plan": JOIN}])) is same
        # a statement that is rewritten to nothing
        assert shape_of([]) == shape_of(["Query rewrites to nothing"]) != shape_of([{"Plan": SEQUENTIAL}])


def test_only_statements_that_the_planner_plans_are_explained() -> None:
    for text in (
        "SELECT 1",
        "  -- first\n/* then */ (select 1)",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "insert INTO t VALUES ($1)",
        "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
    ):
        assert has_plan(text), text
    for text in (
        "BEGIN",
        "SELECTED",
        "-- SELECT\nCOMMIT",
        "COPY t FROM STDIN",
        "CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM t",
    ):
        assert not has_plan(text), text


def test_plans_and_profiles_without_a_probe_are_refused() -> None:
    for key in ("plans", "profile"):
        with pytest.raises(ValueError, match=f"{key} = true needs the probe"):
            ProbeSpec.model_validate({"enabled": False, key: True})
