"""How the chart sets the priority of pods: by admission policy, or by webhook with its certificate."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.chart.conftest import Render
from tests.support.helm import NAMESPACE, Helm, HelmError, names, the


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--kube-version", "1.34.4"], "expected Kubernetes 1.36 or newer", id="too old, as it is said"),
        pytest.param(["--api-versions", "apps/v1/Deployment"], "does not serve MutatingAdmissionPolicy", id="a cluster without the API"),
        pytest.param(["--kube-version", "1.29.0"], "chart requires kubeVersion: >=1.30.0-0", id="far too old"),
    ],
)
def test_a_cluster_that_cannot_set_priorities_is_refused_in_words(helm: Helm, arguments: list[str], want: str) -> None:
    """With the webhook, which would set them, switched off. Helm itself refuses clusters older than the chart's kubeVersion."""
    with pytest.raises(HelmError) as refused:
        helm.render({"webhook": {"mode": "Off"}}, *arguments)
    assert want in str(refused.value)


PRIORITY_KINDS = {"MutatingAdmissionPolicy", "MutatingWebhookConfiguration"}
ISSUER = {"name": "ours", "kind": "ClusterIssuer"}


@pytest.mark.parametrize(
    ("values", "version", "want"),
    [
        pytest.param({}, "1.37.1", {"MutatingAdmissionPolicy"}, id="by policy where the cluster can"),
        pytest.param({}, "1.34.4", {"MutatingWebhookConfiguration"}, id="by webhook where it cannot"),
        pytest.param({"webhook": {"mode": "On"}}, "1.37.1", {"MutatingWebhookConfiguration"}, id="by webhook where that is wanted"),
        pytest.param({"admissionPolicies": {"install": False}}, "1.34.4", set(), id="not at all"),
    ],
)
def test_pods_get_their_priority_in_one_way(render: Render, values: dict[str, Any], version: str, want: set[str]) -> None:
    objects = render(values, "--kube-version", version)
    assert {one["kind"] for one in objects} & PRIORITY_KINDS == want
    settings = yaml.safe_load(the(objects, "ConfigMap", "fb-fairburst")["data"]["fairburst.yaml"])
    assert ("webhook" in settings) == ("MutatingWebhookConfiguration" in want)


def test_the_webhook_has_a_certificate_for_its_name_and_the_api_server_has_the_authority(render: Render) -> None:
    objects = render({}, "--kube-version", "1.34.4")
    secret, registration = the(objects, "Secret"), the(objects, "MutatingWebhookConfiguration")
    clients = [webhook["clientConfig"] for webhook in registration["webhooks"]]
    assert [client["caBundle"] for client in clients] == [secret["data"]["ca.crt"]] * 3
    service = the(objects, "Service", clients[0]["service"]["name"])
    assert service["spec"]["ports"][0]["port"] == clients[0]["service"]["port"]
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    settings = yaml.safe_load(the(objects, "ConfigMap", "fb-fairburst")["data"]["fairburst.yaml"])["webhook"]
    assert settings["serverName"] == f"{service['metadata']['name']}.{NAMESPACE}.svc"


@pytest.mark.parametrize(
    ("webhook", "want_secret", "want_kinds"),
    [
        pytest.param({"certificate": "CertManager"}, "fb-fairburst-webhook", {"Certificate", "Issuer"}, id="cert-manager"),
        pytest.param({"certificate": "CertManager", "issuerRef": ISSUER}, "fb-fairburst-webhook", {"Certificate"}, id="an issuer of ours"),
        pytest.param({"certificate": "Provided", "secretName": "mine", "caBundle": "PEM"}, "mine", set(), id="given"),
    ],
)
def test_certificates_come_from_where_they_are_wanted(
    render: Render, webhook: dict[str, Any], want_secret: str, want_kinds: set[str]
) -> None:
    objects = render({"webhook": webhook}, "--kube-version", "1.34.4")
    volumes = the(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {"secretName": want_secret} in [volume.get("secret") for volume in volumes]
    assert {one["kind"] for one in objects} & {"Certificate", "Issuer", "Secret"} == want_kinds
    registration = the(objects, "MutatingWebhookConfiguration")
    injected = registration["metadata"]["annotations"].get("cert-manager.io/inject-ca-from")
    assert (injected == f"{NAMESPACE}/fb-fairburst-webhook") == (webhook["certificate"] == "CertManager")
    assert ("caBundle" in registration["webhooks"][0]["clientConfig"]) == (webhook["certificate"] == "Provided")


def test_a_certificate_that_was_not_given_is_asked_for(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"webhook\.(secretName|caBundle): expected"):
        helm.render({"webhook": {"certificate": "Provided"}}, "--kube-version", "1.34.4")


def test_quotas_alone_need_no_new_cluster(render: Render) -> None:
    assert names(render({"admissionPolicies": {"install": False}}, "--kube-version", "1.34.4"), "Deployment") == ["fb-fairburst"]
