{{- define "fairburst.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fairburst.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fairburst.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fairburst.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairburst.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "fairburst.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* The extender's pods are not the operator's: no Service, budget or policy of those may select them. */ -}}
{{- define "fairburst.extenderSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-extender" (include "fairburst.name" .) | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairburst.extenderLabels" -}}
{{ merge (include "fairburst.extenderSelectorLabels" . | fromYaml) (include "fairburst.labels" . | fromYaml) | toYaml }}
{{- end -}}

{{- /* Nor are the dashboard's. */ -}}
{{- define "fairburst.dashboardSelectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-dashboard" (include "fairburst.name" .) | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairburst.dashboardLabels" -}}
{{ merge (include "fairburst.dashboardSelectorLabels" . | fromYaml) (include "fairburst.labels" . | fromYaml) | toYaml }}
{{- end -}}

{{- define "fairburst.serviceAccountName" -}}
{{- default (ternary (include "fairburst.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "fairburst.image" -}}
{{- with .Values.image -}}
{{- $name := ternary .repository (printf "%s/%s" (trimSuffix "/" .registry) .repository) (empty .registry) -}}
{{- if .digest }}{{ $name }}@{{ .digest }}{{ else }}{{ $name }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* The configuration file: what the user gave, the namespace, which is the release's, and the webhook if there is one. */ -}}
{{- define "fairburst.configuration" -}}
{{- $ours := dict "namespace" .Release.Namespace -}}
{{- if include "fairburst.webhook" . -}}
{{- $_ := set $ours "webhook" (dict "enabled" true "port" (int64 .Values.webhook.port) "serverName" (include "fairburst.webhookHost" .)) -}}
{{- end -}}
{{- if .Values.extender.enabled -}}
{{- $_ := set $ours "extender" (dict "port" (int64 .Values.extender.port)) -}}
{{- end -}}
{{- merge $ours .Values.config | toYaml -}}
{{- end -}}

{{- /* What every container of ours has: no root, no writing but to volumes, no capability. */ -}}
{{- define "fairburst.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "fairburst.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Whether a cluster is asked: without one (`helm template`, `helm lint`) Helm knows versions of APIs, but no kinds. */ -}}
{{- define "fairburst.live" -}}
{{- if .Capabilities.APIVersions.Has "apps/v1/Deployment" }}true{{ end -}}
{{- end -}}

{{- /* What our pods may reach under a network policy: the API server and DNS. */ -}}
{{- define "fairburst.egress" -}}
- ports:
  {{- range .Values.networkPolicy.apiServerPorts }}
  - {port: {{ int64 . }}, protocol: TCP}
  {{- end }}
  {{- with .Values.networkPolicy.apiServer }}
  to: {{- toYaml . | nindent 2 }}
  {{- end }}
- ports:
  - {port: 53, protocol: UDP}
  - {port: 53, protocol: TCP}
{{- end -}}

{{- define "fairburst.antiAffinity" -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "fairburst.selectorLabels" . | fromYaml)) -}}
{{- if eq .Values.podAntiAffinity "Required" -}}
{{- dict "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) | toYaml -}}
{{- else -}}
{{- dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) | toYaml -}}
{{- end -}}
{{- end -}}
