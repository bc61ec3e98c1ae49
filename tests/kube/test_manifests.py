"""The output of `fairburst manifests`: least rights, scoped policies, the configured ladder."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fairburst.cli.main import main
from fairburst.config import Config, parse_config
from fairburst.kube.enforce.namespace_labels import BY_QUEUE, PRIORITIES
from fairburst.kube.install.manifests import Subject, access, all_manifests, priority_classes, to_yaml
from fairburst.kube.install.mutating_policies import policies
from fairburst.kube.names import HOLDS_LABEL, MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL


def of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def rules(subject: Subject) -> list[dict[str, Any]]:
    return [rule for manifest in access(Config(), subject) for rule in manifest.get("rules", [])]


def test_rights_have_no_wildcard_and_no_secrets() -> None:
    for rule in rules(Subject()):
        granted = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not granted & {"*", "secrets", "pods/exec", "impersonate", "escalate", "bind"}


@pytest.mark.parametrize(("resource", "want"), [("nodes", set()), ("pods", {"patch"})])
def test_nodes_are_only_read_and_pods_only_patched_for_their_gate(resource: str, want: set[str]) -> None:
    verbs = {verb for rule in rules(Subject()) if resource in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"} | want


def test_the_ladder_has_the_configured_values_and_never_preempts() -> None:
    classes = priority_classes(parse_config("priorityClasses: {large: -20, small: -10, soft: 10, hard: 20}"))
    assert {one["metadata"]["name"]: one["value"] for one in classes} == {
        "fairburst-large": -20,
        "fairburst-small": -10,
        "fairburst-soft": 10,
        "fairburst-hard": 20,
    } | {f"fairburst-queue-{lane}": -20 for lane in range(1, 9)}, "further queues are elastic, as large jobs are"
    assert {one["preemptionPolicy"] for one in classes} == {"Never"}


def test_policies_act_in_managed_namespaces_only_and_never_fail_closed() -> None:
    manifests = policies(Config())
    bindings = of_kind(manifests, "MutatingAdmissionPolicyBinding")
    assert {policy["spec"]["failurePolicy"] for policy in of_kind(manifests, "MutatingAdmissionPolicy")} == {"Ignore"}
    assert len(bindings) == 12, (
        "pods: four priorities, that by queue, that of no queue, and gates; Jobs: held, by queue too, their failures, two for sizes"
    )
    by_name = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind(manifests, "MutatingAdmissionPolicy")}
    written = {PRIORITY_LABEL: "hard", HOLDS_LABEL: "Pods", "kubernetes.io/metadata.name": "team"}
    for binding in bindings:
        selector = binding["spec"]["matchResources"]["namespaceSelector"]
        assert not selects(selector, written), "neither managed nor of a pool, both of which the operator writes together"
        system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["fairburst-system", "kube-system"]}
        outside = 'request.namespace != "kube-system" && request.namespace != "fairburst-system" && '
        condition = by_name[binding["spec"]["policyName"]]["matchConditions"][0]["expression"]
        assert system in selector["matchExpressions"] or condition.startswith(outside)
        assert binding["spec"].get("paramRef", {}).get("parameterNotFoundAction", "Allow") == "Allow"


def test_objects_of_two_pools_do_not_collide() -> None:
    def names(pool: str) -> set[str]:
        config = parse_config(f"pool: {{name: {pool}}}")
        named = [
            *policies(config),
            *of_kind(access(config, Subject()), "ClusterRole"),
            *of_kind(access(config, Subject()), "ClusterRoleBinding"),
        ]
        return {manifest["metadata"]["name"] for manifest in named}

    assert not names("red") & names("blue")


def test_a_selector_with_hostile_text_stays_text() -> None:
    config = Config.model_validate({"pool": {"node_selector": {'a"b': "c'}] + ["}}})
    expression = of_kind(policies(config), "MutatingAdmissionPolicy")[0]["spec"]["mutations"][0]["jsonPatch"]["expression"]
    assert '"a\\"b"' in expression


@pytest.mark.parametrize(("subject", "want"), [(Subject(), "ServiceAccount"), (Subject(user="jane"), "User")])
def test_rights_go_to_the_subject(subject: Subject, want: str) -> None:
    manifests = all_manifests(Config(), subject)
    bindings = of_kind(manifests, "ClusterRoleBinding") + of_kind(manifests, "RoleBinding")
    assert [one["subjects"][0]["kind"] for one in bindings if "heartbeat" not in one["metadata"]["name"]] == [want, want]
    assert len(of_kind(manifests, "ServiceAccount")) == (want == "ServiceAccount")


def test_every_client_may_read_the_lease_of_this_pool_and_nothing_else() -> None:
    manifests = all_manifests(Config.model_validate({"leaderElection": {"leaseName": "mine"}}, by_alias=True, by_name=False), Subject())
    everyone = [one for one in manifests if any(to["kind"] == "Group" for to in one.get("subjects", ()))]
    (binding,) = everyone
    (role,) = [one for one in of_kind(manifests, "Role") if one["metadata"]["name"] == binding["roleRef"]["name"]]
    assert role["rules"] == [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"], "resourceNames": ["mine"]}]


def test_the_printed_documents_are_all_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "--subject-user", "jane"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == all_manifests(Config(), Subject(user="jane"))
    assert printed == list(yaml.safe_load_all(to_yaml(printed)))


def test_without_a_reserve_for_small_jobs_no_policy_looks_at_sizes_and_jobs_are_only_held_and_made_to_survive() -> None:
    off = policies(parse_config("smallJobs: {enabled: false}"))
    printed = to_yaml(off)
    assert "fairburst.dev/size" not in printed
    named = {one["metadata"]["name"]: resource_rules(one) for one in of_kind(off, "MutatingAdmissionPolicy")}
    watching = {name for name, rules_of in named.items() if any("jobs" in rule["resources"] for rule in rules_of)}
    assert watching == {"fairburst-hold.default", "fairburst-hold-by-queue.default", "fairburst-disruption.default"}
    assert {tuple(rule["operations"]) for name in watching for rule in named[name]} == {("CREATE",)}, "what its user does later stands"


def test_with_a_reserve_further_policies_size_jobs_and_only_namespaces_whose_pods_go_by_size_look_at_it() -> None:
    manifests = policies(parse_config("smallJobs: {enabled: true}"))
    by_name = {one["metadata"]["name"]: one["spec"] for one in of_kind(manifests, "MutatingAdmissionPolicy")}
    sizes = by_name["fairburst-size.default"]
    assert (sizes["failurePolicy"], sizes["paramKind"]["kind"]) == ("Ignore", "ResourceQuota")
    looking = {name for name, spec in by_name.items() if name.startswith("fairburst-priority") and "fairburst.dev/size" in str(spec)}
    assert looking == {"fairburst-priority-by-size.default", "fairburst-priority-by-queue.default"}


def test_no_policy_reads_a_queue_and_none_for_pods_has_a_parameter() -> None:
    manifests = of_kind(policies(Config()), "MutatingAdmissionPolicy")
    pods = [one for one in manifests if any("pods" in rule["resources"] for rule in resource_rules(one))]
    assert len(pods) == 7
    assert not [one["metadata"]["name"] for one in pods if "paramKind" in one["spec"]]
    read = {one["spec"]["paramKind"]["kind"] for one in manifests if "paramKind" in one["spec"]}
    assert read == {"ResourceQuota"}, "the API server copies a custom resource, status included, for each evaluation"


@pytest.mark.parametrize("small_jobs", ["true", "false"])
@pytest.mark.parametrize("priority", [*PRIORITIES, *BY_QUEUE.values(), None, "forged"])
@pytest.mark.parametrize("holds", ["Pods", "Jobs", None])
def test_exactly_one_priority_and_one_gate_where_pods_are_held_is_bound_to_each_managed_namespace(
    small_jobs: str, priority: str | None, holds: str | None
) -> None:
    given = {MANAGED_LABEL: "true", POOL_LABEL: "default", "kubernetes.io/metadata.name": "team"}
    labels = given | ({PRIORITY_LABEL: priority} if priority else {}) | ({HOLDS_LABEL: holds} if holds else {})
    bound = []
    for binding in of_kind(policies(parse_config(f"smallJobs: {{enabled: {small_jobs}}}")), "MutatingAdmissionPolicyBinding"):
        selector = binding["spec"]["matchResources"]["namespaceSelector"]
        if selects(selector, labels):
            bound.append(binding["metadata"]["name"])
    assert len([name for name in bound if name.startswith("fairburst-priority")]) == 1, f"found {bound}"
    assert ("fairburst-gate.default" in bound) == (holds == "Pods" and priority not in BY_QUEUE.values()), "the lanes' policy has gates"


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a label selector selects these labels, as metav1.LabelSelector says."""
    for requirement in selector.get("matchExpressions", []):
        inside = labels.get(requirement["key"]) in requirement["values"]
        if inside != (requirement["operator"] == "In"):
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def resource_rules(policy: dict[str, Any]) -> list[dict[str, Any]]:
    rules_of: list[dict[str, Any]] = policy["spec"]["matchConstraints"]["resourceRules"]
    return rules_of
