"""Query plans: the shape that is compared, the statements that have a plan, and the changes between arms."""

import pytest

from pgdyno.effect import has_plan
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe.explain import shape_of

SEQUENTIAL = {"Node Type": "Seq Scan", "Relation Name": "t", "Parent Relationship": "Outer"}
BY_INDEX = {"Node Type": "Index Scan", "Relation Name": "t", "Index Name": "t_pkey", "Scan Direction": "Forward"}
JOIN = {"Node Type": "Hash Join", "Join Type": "Inner", "Plans": [SEQUENTIAL, BY_INDEX]}


@pytest.mark.parametrize(
    "same",
    [
        JOIN | {"Total Cost": 8.5, "Plan Rows": 1, "Plan Width": 4, "Hash Cond": "(a.id = b.id)"},
        # of a later version: a key that others lack, other numbers of aliases
        JOIN | {"Async Capable": False, "Disabled": False, "Alias": "t_1"},
        JOIN | {"Plans": [SEQUENTIAL | {"Parent Relationship": "Member"}, BY_INDEX]},
        # a hash index before version 16
        JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Scan Direction": "NoMovement"}]},
    ],
)
def test_costs_and_names_that_differ_between_versions_are_not_part_of_a_shape(same: dict[str, object]) -> None:
    assert shape_of([{"Plan": same}]) == shape_of([{"Plan": JOIN}])


@pytest.mark.parametrize(
    "other",
    [
        JOIN | {"Node Type": "Nested Loop"},
        JOIN | {"Join Type": "Left"},
        JOIN | {"Plans": [BY_INDEX, SEQUENTIAL]},
        JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Index Name": "t_kind"}]},
        JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Scan Direction": "Backward"}]},
        JOIN | {"Plans": [SEQUENTIAL | {"Relation Name": "u"}, BY_INDEX]},
        JOIN | {"Plans": [SEQUENTIAL | {"Parent Relationship": "SubPlan"}, BY_INDEX]},
        JOIN | {"Plans": [SEQUENTIAL | {"Parallel Aware": True}, BY_INDEX]},
    ],
)
def test_nodes_relations_indexes_joins_and_their_order_are_a_shape(other: dict[str, object]) -> None:
    assert shape_of([{"Plan": other}]) != shape_of([{"Plan": JOIN}])


def test_a_statement_that_is_rewritten_to_nothing_has_a_shape() -> None:
    assert shape_of([]) == shape_of(["Query rewrites to nothing"]) != shape_of([{"Plan": SEQUENTIAL}])


@pytest.mark.parametrize(
    ("text", "planned"),
    [
        ("SELECT 1", True),
        ("  -- first\n/* then */ (select 1)", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x", True),
        ("insert INTO t VALUES ($1)", True),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", True),
        ("BEGIN", False),
        ("SELECTED", False),
        ("-- SELECT\nCOMMIT", False),
        ("COPY t FROM STDIN", False),
        ("CREATE TABLE t AS SELECT 1", False),
        ("EXPLAIN ANALYZE DELETE FROM t", False),
    ],
)
def test_only_statements_that_the_planner_plans_are_explained(text: str, planned: bool) -> None:
    assert has_plan(text) is planned


@pytest.mark.parametrize("key", ["plans", "profile"])
def test_plans_and_profiles_without_a_probe_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} = true needs the probe"):
        ProbeSpec.model_validate({"enabled": False, key: True})
