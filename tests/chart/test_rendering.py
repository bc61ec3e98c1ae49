"""Objects that the chart renders: the default as a snapshot, options one by one, pods that meet the restricted Pod Security standard."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairburst.kube.queues.objects import parse_queue
from release.chart import CHART
from tests.chart.conftest import Render
from tests.support.helm import NAMESPACE, Helm, HelmError, names, objects_in, the

SNAPSHOT = Path(__file__).parent / "default.yaml"
_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
GENERATED = ("CustomResourceDefinition", *_POLICIES, *(f"{kind}Binding" for kind in _POLICIES))  # see test_drift.py
OPTIONAL = {
    "ServiceMonitor": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "FlowSchema": {"flowSchema": {"enabled": True}},
    "PrometheusRule": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
}
EVERYTHING = {
    **{key: value for values in OPTIONAL.values() for key, value in values.items()},
    "networkPolicy": {"restrictEgress": True, "metricsFrom": [{"namespaceSelector": {}}]},
    "config": {"pool": {"name": "gpu", "nodeSelector": {"pool": "gpu"}}},
    "image": {"registry": "images.example.com", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"annotations": {"a": "b"}},
    "priorityClassName": "system-cluster-critical",
    "tolerations": [{"operator": "Exists"}],
    "podAntiAffinity": "Required",
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "platform"},
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraVolumes": [{"name": "recordings", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "recordings", "mountPath": "/recordings"}],
    "grafanaDashboards": {"enabled": True, "annotations": {"folder": "Platform"}},
    "dashboard": {
        "enabled": True,
        "hosts": ["bursts.example.com"],
        "from": [{"namespaceSelector": {}}],
        "tolerations": [{"operator": "Exists"}],
    },
    "extender": {"enabled": True, "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "tolerations": [{"operator": "Exists"}]},
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}}],
}


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the spec of every pod of the chart, also inside Deployments and Jobs."""
    specs = [one["spec"] for one in objects if one["kind"] == "Pod"]
    return specs + [one["spec"]["template"]["spec"] for one in objects if one["kind"] in {"Deployment", "Job"}]


def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = the(objects, "Deployment", "fb-fairburst")["spec"]["template"]["spec"]
    return spec


def test_the_default_rendering_is_the_snapshot(render: Render) -> None:
    """`UPDATE_SNAPSHOT=1` writes it again; the reason belongs in the commit."""
    objects = [one for one in render() if one["kind"] not in GENERATED]
    text = yaml.safe_dump_all(objects, sort_keys=False, width=140)
    if os.environ.get("UPDATE_SNAPSHOT"):
        SNAPSHOT.write_text(text)
    assert list(yaml.safe_load_all(text)) == list(yaml.safe_load_all(SNAPSHOT.read_text()))


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_helm_lint_is_content(helm: Helm, values: dict[str, Any]) -> None:
    assert "0 chart(s) failed" in helm.on_chart("lint", "--strict", values=values)


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_every_pod_meets_the_restricted_standard_and_writes_nothing(render: Render, values: dict[str, Any]) -> None:
    specs = pods(render(values))
    assert len(specs) == 3 + ("extender" in values) + ("dashboard" in values), "operator, test and cleanup"
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume]
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("kind", OPTIONAL)
def test_options_are_off_by_default_and_on_when_asked_for(render: Render, kind: str) -> None:
    assert names(render(), kind) == []
    assert len(names(render(OPTIONAL[kind]), kind)) == 1


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        pytest.param({"crds": {"install": False}}, "CustomResourceDefinition", id="CRDs"),
        pytest.param({"priorityClasses": {"install": False}}, "PriorityClass", id="priority classes"),
        pytest.param({"admissionPolicies": {"install": False}}, "MutatingAdmissionPolicy", id="policies"),
        pytest.param({"rbac": {"create": False}, "cleanup": {"enabled": False}}, "ClusterRoleBinding", id="rights"),
        pytest.param({"cleanup": {"enabled": False}}, "Job", id="cleaning up"),
        pytest.param({"podDisruptionBudget": {"enabled": False}}, "PodDisruptionBudget", id="the disruption budget"),
    ],
)
def test_parts_that_others_bring_are_left_out(render: Render, values: dict[str, Any], gone: str) -> None:
    assert names(render(), gone)
    assert names(render(values), gone) == []


@pytest.mark.parametrize(("keep", "want"), [(True, {"helm.sh/resource-policy": "keep"}), (False, {})])
def test_crds_are_kept_at_an_uninstallation_if_wanted(render: Render, keep: bool, want: dict[str, str]) -> None:
    crds = [one for one in render({"crds": {"keep": keep}}) if one["kind"] == "CustomResourceDefinition"]
    assert [crd["metadata"].get("annotations", {}) for crd in crds] == [want, want]


def test_a_changed_configuration_restarts_the_operator_and_nothing_else_does(render: Render) -> None:
    def checksum(values: dict[str, Any]) -> str:
        return str(the(render(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum({"grafanaDashboards": {"enabled": True}})
    assert checksum({}) != checksum({"config": {"pool": {"headRoomPercent": 5}}})


def test_two_operators_on_different_nodes_and_zones_of_which_a_drain_takes_one(render: Render) -> None:
    objects = render()
    deployment = the(objects, "Deployment")["spec"]
    labels = deployment["selector"]["matchLabels"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (2, "RollingUpdate")
    (preferred,) = operator(objects)["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"] == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    (spread,) = operator(objects)["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
    assert spread["labelSelector"] == {"matchLabels": labels}
    budget = the(objects, "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, {"matchLabels": labels})


def test_without_a_lease_there_is_one_operator_at_a_time(render: Render, helm: Helm) -> None:
    off = {"config": {"leaderElection": {"enabled": False}}}
    deployment = the(render(off | {"replicas": 1}), "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    with pytest.raises(HelmError, match=r"expected config\.leaderElection\.enabled=true with several replicas"):
        helm.render(off)


def test_the_operator_reads_the_configuration_that_is_mounted(render: Render) -> None:
    objects = render({"config": {"metrics": {"port": 1234}}})
    spec = operator(objects)
    (container,) = spec["containers"]
    assert container["args"] == ["run", "--config", "/etc/fairburst/fairburst.yaml"]
    assert container["volumeMounts"][0]["mountPath"] == "/etc/fairburst"
    mounted = the(objects, "ConfigMap", spec["volumes"][0]["configMap"]["name"])
    assert yaml.safe_load(mounted["data"]["fairburst.yaml"]) == {"namespace": NAMESPACE, "metrics": {"port": 1234}}
    assert container["ports"][0]["containerPort"] == the(objects, "Service")["spec"]["ports"][0]["port"] == 1234
    assert the(objects, "Pod")["spec"]["containers"][0]["command"][-1].endswith(f"-metrics.{NAMESPACE}.svc:1234")


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param({}, r"^fairburst/fairburst:\d+\.\d+\.\d+$", id="the version of the chart"),
        pytest.param({"tag": "x"}, "^fairburst/fairburst:x$", id="a tag"),
        pytest.param({"tag": "x", "digest": "sha256:" + "a" * 64}, "^fairburst/fairburst@sha256:a{64}$", id="a digest"),
        pytest.param({"registry": "images.example.com/"}, "^images.example.com/fairburst/fairburst:", id="a registry"),
    ],
)
def test_every_pod_has_the_image_asked_for(render: Render, image: dict[str, Any], want: str) -> None:
    found = {container["image"] for spec in pods(render({"image": image})) for container in spec["containers"]}
    assert len(found) == 1
    assert re.match(want, found.pop())


def test_placement_is_as_asked_for(render: Render) -> None:
    assert "affinity" not in operator(render({"podAntiAffinity": "Off"}))
    asked = operator(render(EVERYTHING))
    assert asked["priorityClassName"] == "system-cluster-critical"
    ours = {"app.kubernetes.io/name": "fairburst", "app.kubernetes.io/instance": "fb"}
    assert asked["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": ours}
    (term,) = asked["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": ours}
    own = {"nodeAffinity": {"a": "b"}}
    assert operator(render({"podAntiAffinity": "Preferred", "affinity": own}))["affinity"] == own
    selector = {"matchLabels": {"x": "y"}}
    given = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
    assert operator(render({"topologySpreadConstraints": given}))["topologySpreadConstraints"] == given


def test_the_extender_is_off_unless_asked_for_and_reads_nothing_else_than_it_answers_from(render: Render) -> None:
    assert not [one for one in render() if one["metadata"]["name"].endswith("extender")]
    objects = render({"extender": {"enabled": True, "port": 1234, "clusterIP": "10.96.0.99"}})
    assert the(objects, "ClusterRole", "fairburst-extender.default")["rules"] == [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["fairburst.dev"], "resources": ["latencyqueues", "throughputqueues"], "verbs": ["list", "watch"]},
    ]
    service = the(objects, "Service", "fb-fairburst-extender")
    assert (service["spec"]["clusterIP"], service["spec"]["ports"][0]["port"]) == ("10.96.0.99", 1234)
    settings = yaml.safe_load(the(objects, "ConfigMap", "fb-fairburst")["data"]["fairburst.yaml"])
    assert settings["extender"] == {"port": 1234}


def test_the_dashboard_is_off_unless_asked_for_and_may_only_read_queues_and_nodes_and_ask_about_people(render: Render) -> None:
    assert not [one for one in render() if one["metadata"]["name"].endswith("dashboard")]
    objects = render({"dashboard": {"enabled": True, "port": 1234}})
    assert the(objects, "ClusterRole", "fairburst-dashboard.default")["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["fairburst.dev"], "resources": ["latencyqueues", "throughputqueues"], "verbs": ["list", "watch"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    (lease,) = the(objects, "Role", "fb-fairburst-dashboard")["rules"]
    assert (lease["resources"], lease["verbs"], lease["resourceNames"]) == (["leases"], ["get"], ["fairburst-default"])
    spec = the(objects, "Deployment", "fb-fairburst-dashboard")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["args"][-1] == str(container["ports"][0]["containerPort"]) == "1234"
    assert spec["replicas"] == 1


@pytest.mark.parametrize(
    ("values", "secret", "made"),
    [
        pytest.param({}, "fb-fairburst-dashboard", {"Secret"}, id="by Helm"),
        pytest.param({"certificate": "CertManager"}, "fb-fairburst-dashboard", {"Issuer", "Certificate"}, id="cert-manager"),
        pytest.param(
            {"certificate": "CertManager", "issuerRef": {"name": "ca"}}, "fb-fairburst-dashboard", {"Certificate"}, id="own issuer"
        ),
        pytest.param({"certificate": "Provided", "secretName": "mine"}, "mine", set(), id="given"),
    ],
)
def test_the_dashboards_certificate(render: Render, values: dict[str, Any], secret: str, made: set[str]) -> None:
    objects = render({"dashboard": {"enabled": True, **values}})
    (volume,) = [
        one
        for one in the(objects, "Deployment", "fb-fairburst-dashboard")["spec"]["template"]["spec"]["volumes"]
        if one["name"] == "certificate"
    ]
    assert volume["secret"] == {"secretName": secret}
    kinds = {one["kind"] for one in objects if one["metadata"]["name"] == "fb-fairburst-dashboard"}
    assert kinds & {"Secret", "Issuer", "Certificate"} == made


def test_a_given_certificate_needs_the_name_of_its_secret(helm: Helm) -> None:
    with pytest.raises(HelmError, match="expected the name of a Secret"):
        helm.render({"dashboard": {"enabled": True, "certificate": "Provided"}})


@pytest.mark.parametrize("part", ["extender", "dashboard"])
def test_what_selects_the_operators_pods_does_not_select_those_of_other_parts(render: Render, part: str) -> None:
    objects = render(EVERYTHING)
    labels = the(objects, "Deployment", f"fb-fairburst-{part}")["spec"]["template"]["metadata"]["labels"]
    selectors = {}
    for one in objects:
        given = one.get("spec", {}).get("selector") or one.get("spec", {}).get("podSelector") or {}
        selectors[one["kind"], one["metadata"]["name"]] = given.get("matchLabels", given)
    chosen = {key for key, selector in selectors.items() if selector and selector.items() <= labels.items()}
    assert chosen == {(kind, f"fb-fairburst-{part}") for kind in ("Deployment", "Service", "NetworkPolicy")}


def test_by_default_only_namespaces_with_the_label_for_it_and_the_charts_own_test_read_metrics(render: Render) -> None:
    spec = the(render(), "NetworkPolicy", "fb-fairburst")["spec"]
    (metrics,) = spec["ingress"]
    test = {"app.kubernetes.io/name": "fairburst-test", "app.kubernetes.io/instance": "fb"}
    assert metrics["from"] == [{"podSelector": {"matchLabels": test}}, {"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]
    assert spec["policyTypes"] == ["Ingress"]
    helm_test = the(render(), "Pod")["metadata"]["labels"]
    assert test.items() <= helm_test.items()


def test_tenants_read_queues_and_never_write_a_status(render: Render) -> None:
    def tenants(values: dict[str, Any]) -> list[dict[str, Any]]:
        return [one for one in render(values) if "rbac.authorization.k8s.io/aggregate-to-edit" in one["metadata"]["labels"]]

    view, edit = tenants({})
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {verb for rule in edit["rules"] for verb in rule["verbs"]} == {"update", "patch"}
    assert {resource for role in (view, edit) for rule in role["rules"] for resource in rule["resources"]} == {
        "latencyqueues",
        "throughputqueues",
    }
    assert tenants({"rbac": {"aggregateView": False, "aggregateEdit": False}}) == []


def test_the_lease_is_read_by_all_unless_an_administrator_refuses(render: Render) -> None:
    def readers(values: dict[str, Any]) -> list[dict[str, Any]]:
        return [one for one in render(values) if one["metadata"]["name"] == "fairburst-heartbeat.default"]

    assert {one["kind"] for one in readers({})} == {"Role", "RoleBinding"}
    assert readers({"rbac": {"readHeartbeat": False}}) == []


def test_without_the_policies_tenants_cannot_change_queues_for_that_would_include_their_weight(render: Render) -> None:
    objects = render({"tenantPolicies": {"install": False}})
    assert [one["metadata"]["name"] for one in objects if one["metadata"]["name"].startswith("fairburst-tenants-")] == []
    assert "fairburst-queues-edit.default" not in {one["metadata"]["name"] for one in objects}


def test_what_is_left_to_clean_up_needs_few_rights(render: Render) -> None:
    hooks = [one for one in render() if one["metadata"].get("annotations", {}).get("helm.sh/hook") == "post-delete"]
    rules = {one["kind"]: one["rules"] for one in hooks if "rules" in one}
    assert rules == {
        "ClusterRole": [
            {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "patch"]},
            {"apiGroups": ["fairburst.dev"], "resources": ["latencyqueues/status", "throughputqueues/status"], "verbs": ["patch"]},
            {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["list", "patch"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "patch"]},
            {"apiGroups": ["fairburst.dev"], "resources": ["latencyqueues", "throughputqueues"], "verbs": ["list", "operate"]},
        ],
        "Role": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["delete"]},
        ],
    }
    assert sorted(one["kind"] for one in hooks) == [
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Job", "Role", "RoleBinding", "ServiceAccount",
    ]  # fmt: skip
    for one in hooks:
        assert "hook-succeeded" in one["metadata"]["annotations"]["helm.sh/hook-delete-policy"], "nothing of it stays"


def test_objects_of_two_releases_for_two_pools_do_not_collide(helm: Helm) -> None:
    def cluster_wide(release: str, pool: str) -> set[tuple[str, str]]:
        values = {"config": {"pool": {"name": pool}}, "crds": {"install": False}, "priorityClasses": {"install": False}}
        objects = objects_in(helm.on_chart("template", release, values=values | {"flowSchema": {"enabled": True}}))
        return {(one["kind"], one["metadata"]["name"]) for one in objects if "namespace" not in one["metadata"]}

    assert not cluster_wide("red", "red") & cluster_wide("blue", "blue")


@pytest.mark.parametrize(("namespace", "want"), [("kube-system", "found kube-system"), ("n" * 41, "at most 40 characters")])
def test_a_namespace_that_cannot_be_the_operators_is_refused(helm: Helm, namespace: str, want: str) -> None:
    with pytest.raises(HelmError, match=want):
        helm.on_chart("template", "fb", namespace=namespace)


def test_the_examples_for_artifact_hub_are_valid_queues() -> None:
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    examples = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    for example in examples:
        parse_queue({**example, "metadata": {**example["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}})
    described = {crd["kind"]: crd["name"] for crd in yaml.safe_load(annotations["artifacthub.io/crds"])}
    assert described == {example["kind"]: f"{example['kind'].lower()}s.fairburst.dev" for example in examples}
