"""The rules for tenants as values: verbs by role, and where the rules apply. tests/t1/test_tenants.py tests what they refuse."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from fairburst.config import Config, parse_config
from fairburst.kube.install.manifests import Subject, access, all_manifests
from fairburst.kube.install.tenant_rules import ADMIN_VERBS, OPERATE, SETTING_VERBS, admin_role, edit_role, tenant_policies, view_role
from fairburst.kube.names import MANAGED_LABEL
from fairburst.kube.queues.specs import LatencyQueueSpec, QueueSettings, ThroughputQueueSpec


def verbs(*manifests: dict[str, Any]) -> set[str]:
    return {verb for one in manifests for rule in one.get("rules", ()) for verb in rule["verbs"]}


def test_the_operator_and_nobody_else_may_do_what_only_the_operator_does() -> None:
    config = Config()
    assert OPERATE in verbs(*access(config, Subject()))
    assert OPERATE not in verbs(view_role(config), edit_role(config), admin_role(config))


def test_the_operator_may_not_weigh_tenants() -> None:
    assert not verbs(*access(Config(), Subject())) & set(ADMIN_VERBS)


def test_roles_of_tenants_have_no_verb_of_an_administrator_and_no_status() -> None:
    config = Config()
    assert verbs(view_role(config)) == {"get", "list", "watch"}
    assert verbs(edit_role(config)) == {"update", "patch"}
    assert set(ADMIN_VERBS) < verbs(admin_role(config))
    for role in (view_role(config), edit_role(config), admin_role(config)):
        assert [rule["resources"] for rule in role["rules"]] == [["latencyqueues", "throughputqueues"]]


def test_only_view_and_edit_are_parts_of_the_clusters_own_roles() -> None:
    config = Config()
    assert len(view_role(config)["metadata"]["labels"]) == 3
    assert len(edit_role(config)["metadata"]["labels"]) == 2
    assert "labels" not in admin_role(config)["metadata"]


def test_every_setting_that_both_kinds_of_queue_share_but_holding_oneself_back_takes_a_verb() -> None:
    """A setting that is new to both kinds counts as weighing queues against each other until this test says otherwise."""
    assert set(QueueSettings.model_fields) - set(SETTING_VERBS) == {"suspended", "limits"}


def test_whatever_is_chosen_at_creation_without_a_verb_is_the_schemas_default() -> None:
    for spec in (LatencyQueueSpec, ThroughputQueueSpec):
        for setting in SETTING_VERBS:
            field = spec.model_fields[setting]
            assert field.default == QueueSettings.model_fields[setting].default
            assert get_origin(field.annotation) is not Literal or field.default in get_args(field.annotation)


def test_rules_fail_closed_and_those_about_what_others_have_too_keep_to_managed_namespaces() -> None:
    manifests = tenant_policies(parse_config("namespace: mine"))
    policies = {one["metadata"]["name"]: one["spec"] for one in manifests if one["kind"] == "ValidatingAdmissionPolicy"}
    bindings = {one["spec"]["policyName"]: one["spec"] for one in manifests if one["kind"] == "ValidatingAdmissionPolicyBinding"}
    assert policies.keys() == bindings.keys()
    expiry = policies.pop("fairburst-expiry.default")
    assert expiry["failurePolicy"] == "Ignore", "it is no rule about what tenants write, and the quota itself holds"
    assert {spec["failurePolicy"] for spec in policies.values()} == {"Fail"}
    assert {tuple(spec["validationActions"]) for spec in bindings.values()} == {("Deny",)}
    for name, spec in policies.items():
        (rule,) = spec["matchConstraints"]["resourceRules"]
        others_too = {"pods", "pods/resize", "daemonsets", "jobs", "jobsets", "resourcequotas"} & set(rule["resources"])
        selector = bindings[name].get("matchResources", {}).get("namespaceSelector")
        assert bool(selector) == bool(others_too), name
        if selector:
            assert selector["matchLabels"] == {MANAGED_LABEL: "true"}
            assert selector["matchExpressions"][0]["values"] == ["kube-system", "mine"]


def test_rules_of_two_pools_do_not_collide() -> None:
    def names(pool: str) -> set[str]:
        return {one["metadata"]["name"] for one in tenant_policies(parse_config(f"pool: {{name: {pool}}}"))}

    assert len(names("red")) == 10
    assert not names("red") & names("blue")


def test_all_of_it_is_in_what_manifests_prints() -> None:
    config = Config()
    printed = all_manifests(config, Subject())
    for one in (*tenant_policies(config), view_role(config), edit_role(config), admin_role(config)):
        assert one in printed
