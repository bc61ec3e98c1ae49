{{- /* What would go wrong later and less clearly. Each message says what was expected, what was found, and what to do. */ -}}
{{- define "fairburst.preflight" -}}
{{- include "fairburst.checkNamespace" . -}}
{{- include "fairburst.checkReplicas" . -}}
{{- include "fairburst.checkLadder" . -}}
{{- include "fairburst.checkCrds" . -}}
{{- include "fairburst.checkPriorityClasses" . -}}
{{- end -}}

{{- define "fairburst.checkNamespace" -}}
{{- if gt (len .Release.Namespace) 40 -}}
{{- fail (printf "expected a namespace of at most 40 characters for the release, since it becomes part of object names; found %q with %d" .Release.Namespace (len .Release.Namespace)) -}}
{{- end -}}
{{- if eq .Release.Namespace "kube-system" -}}
{{- fail "expected a namespace of its own for the release, found kube-system: install with --namespace fairburst-system --create-namespace" -}}
{{- end -}}
{{- end -}}

{{- define "fairburst.checkReplicas" -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "fairburst.settings" . | fromJson).leaderElection.enabled) -}}
{{- fail (printf "expected config.leaderElection.enabled=true with several replicas, since all of them would write; found replicas=%d and false" (int .Values.replicas)) -}}
{{- end -}}
{{- end -}}

{{- define "fairburst.checkLadder" -}}
{{- with (include "fairburst.settings" . | fromJson).priorityClasses -}}
{{- if not (and (lt .large .small) (lt .small .soft) (lt .soft .hard)) -}}
{{- fail (printf "config.priorityClasses: expected large < small < soft < hard, found %v, %v, %v, %v" .large .small .soft .hard) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails unless the object (if there is one) belongs to this release. Takes root, kind, plural (for kubectl), name, found and value (to set). */ -}}
{{- define "fairburst.checkOwner" -}}
{{- $annotations := dig "metadata" "annotations" dict .found -}}
{{- $owner := index $annotations "meta.helm.sh/release-name" | default "" -}}
{{- $home := index $annotations "meta.helm.sh/release-namespace" | default "" -}}
{{- $release := .root.Release -}}
{{- if and .found (not (and (eq $owner $release.Name) (eq $home $release.Namespace))) -}}
{{- $whose := ternary "was not installed by Helm" (printf "belongs to release %q in namespace %q" $owner $home) (empty $owner) -}}
{{- fail (printf "%s %s exists and %s. To use it as it is, set %s=false. To hand it to this release: kubectl annotate --overwrite %s %s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s && kubectl label --overwrite %s %s app.kubernetes.io/managed-by=Helm" .kind .name $whose .value .plural .name $release.Name $release.Namespace .plural .name) -}}
{{- end -}}
{{- end -}}

{{- define "fairburst.checkCrds" -}}
{{- if .Values.crds.install -}}
{{- range $name := list "latencyqueues.fairburst.dev" "throughputqueues.fairburst.dev" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- include "fairburst.checkOwner" (dict "root" $ "kind" "CustomResourceDefinition" "plural" "crd" "name" $name "found" $found "value" "crds.install") -}}
{{- end -}}
{{- else if and (include "fairburst.live" .) (not (.Capabilities.APIVersions.Has "fairburst.dev/v1alpha1/LatencyQueue")) -}}
{{- fail "crds.install is false, and the cluster does not serve fairburst.dev/v1alpha1 LatencyQueue: expected the CRDs of this version to be installed before, or crds.install=true" -}}
{{- end -}}
{{- end -}}

{{- define "fairburst.checkPriorityClasses" -}}
{{- range $rung, $value := (include "fairburst.settings" . | fromJson).priorityClasses -}}
{{- $name := printf "fairburst-%s" $rung -}}
{{- $found := lookup "scheduling.k8s.io/v1" "PriorityClass" "" $name -}}
{{- if and $found (ne (int64 $found.value) (int64 $value)) -}}
{{- fail (printf "PriorityClass %s exists with the value %d, which cannot be changed: expected config.priorityClasses.%s=%d, found %d" $name (int64 $found.value) $rung (int64 $found.value) (int64 $value)) -}}
{{- end -}}
{{- if $.Values.priorityClasses.install -}}
{{- include "fairburst.checkOwner" (dict "root" $ "kind" "PriorityClass" "plural" "priorityclass" "name" $name "found" $found "value" "priorityClasses.install") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Setting the priority inside the API server needs MutatingAdmissionPolicy. Without a cluster to ask, the Kubernetes version decides. */ -}}
{{- define "fairburst.servesPolicies" -}}
{{- if ternary (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) (eq (include "fairburst.live" .) "true") }}true{{ end -}}
{{- end -}}

{{- define "fairburst.requirePolicies" -}}
{{- if not (include "fairburst.servesPolicies" .) -}}
{{- fail (printf "the cluster (Kubernetes %s) does not serve MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, which sets the priority of pods: expected Kubernetes 1.36 or newer, or webhook.mode=Auto, with which the operator sets it itself. With admissionPolicies.install=false quotas are enforced, but pods get no priority from fairburst" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
