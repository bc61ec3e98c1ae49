{{- /* Whether the webhook sets the priority: where it is wanted, or no policy can. */ -}}
{{- define "fairburst.webhook" -}}
{{- $missing := and .Values.admissionPolicies.install (not (include "fairburst.servesPolicies" .)) -}}
{{- if or (eq .Values.webhook.mode "On") (and (eq .Values.webhook.mode "Auto") $missing) }}true{{ end -}}
{{- end -}}

{{- define "fairburst.webhookName" -}}
{{ include "fairburst.fullname" . }}-webhook
{{- end -}}

{{- define "fairburst.webhookSecret" -}}
{{- if eq .Values.webhook.certificate "Provided" -}}
{{- required "webhook.secretName: expected the name of a Secret beside webhook.certificate=Provided" .Values.webhook.secretName -}}
{{- else -}}
{{ include "fairburst.webhookName" . }}
{{- end -}}
{{- end -}}

{{- /* Name by which the API server calls. */ -}}
{{- define "fairburst.webhookHost" -}}
{{ include "fairburst.webhookName" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- /* The self-signed pair: the Secret's if there is one, else new; the same for the whole rendering. */ -}}
{{- define "fairburst.webhookPair" -}}
{{- if not (hasKey .Values.webhook "pair") -}}
{{- $name := include "fairburst.webhookName" . -}}
{{- $hosts := list (include "fairburst.webhookHost" .) -}}
{{- $pair := include "fairburst.selfSignedPair" (dict "root" . "name" $name "hosts" $hosts "addresses" (list) "days" .Values.webhook.certificateDays) -}}
{{- $_ := set .Values.webhook "pair" ($pair | fromJson) -}}
{{- end -}}
{{- .Values.webhook.pair | toJson -}}
{{- end -}}

{{- /* The pair in the Secret `name`, or a new one for `hosts` if there is none. */ -}}
{{- define "fairburst.selfSignedPair" -}}
{{- $found := dig "data" dict (lookup "v1" "Secret" .root.Release.Namespace .name) -}}
{{- if and (hasKey $found "ca.crt") (hasKey $found "tls.crt") (hasKey $found "tls.key") -}}
{{- pick $found "ca.crt" "tls.crt" "tls.key" | toJson -}}
{{- else -}}
{{- $authority := genCA "fairburst" (int .days) -}}
{{- $new := genSignedCert (first .hosts) .addresses .hosts (int .days) $authority -}}
{{- dict "ca.crt" (b64enc $authority.Cert) "tls.crt" (b64enc $new.Cert) "tls.key" (b64enc $new.Key) | toJson -}}
{{- end -}}
{{- end -}}

{{- define "fairburst.webhookClient" -}}
{{- $service := dict "name" (include "fairburst.webhookName" .) "namespace" .Release.Namespace "path" "/mutate" "port" 443 -}}
{{- $client := dict "service" $service -}}
{{- if eq .Values.webhook.certificate "SelfSigned" -}}
{{- $_ := set $client "caBundle" (index (include "fairburst.webhookPair" . | fromJson) "ca.crt") -}}
{{- else if eq .Values.webhook.certificate "Provided" -}}
{{- $_ := set $client "caBundle" (required "webhook.caBundle: expected the authority's certificate beside webhook.certificate=Provided" .Values.webhook.caBundle | b64enc) -}}
{{- end -}}
{{- $client | toJson -}}
{{- end -}}

{{- /* cert-manager puts the authority into the registration by itself. */ -}}
{{- define "fairburst.webhookAnnotations" -}}
{{- $name := printf "%s/%s" .Release.Namespace (include "fairburst.webhookName" .) -}}
{{- ternary (dict "cert-manager.io/inject-ca-from" $name) dict (eq .Values.webhook.certificate "CertManager") | toJson -}}
{{- end -}}
