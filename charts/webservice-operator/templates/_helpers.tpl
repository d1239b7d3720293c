{{/* The first part of every name in the release's namespace. A Service's name has no dots and begins with a letter. */}}
{{- define "webservice-operator.fullname" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := default (ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name)) .Values.fullnameOverride -}}
{{- $name = replace "." "-" $name -}}
{{- if regexMatch "^[0-9]" $name }}ws-{{ end }}{{ $name -}}
{{- end }}

{{/* BASE-SUFFIX in at most 63 characters. Where BASE is too long, a hash keeps it apart from others that begin alike. */}}
{{- define "webservice-operator.join" -}}
{{- $base := index . 0 -}}
{{- $suffix := printf "-%s" (index . 1) -}}
{{- $room := sub 63 (len $suffix) | int -}}
{{- if gt (len $base) $room -}}
{{- $base = printf "%s-%s" (trunc (sub $room 9 | int) $base | regexFind "^.*[a-z0-9]") (sha256sum $base | trunc 8) -}}
{{- end -}}
{{ $base }}{{ $suffix -}}
{{- end }}

{{/* A name in the release's namespace: list $ SUFFIX. */}}
{{- define "webservice-operator.named" -}}
{{- include "webservice-operator.join" (list (include "webservice-operator.fullname" (index . 0)) (index . 1)) -}}
{{- end }}

{{/* A name in the whole cluster: list $ SUFFIX. It has the namespace in it, so two releases of one name do not collide. */}}
{{- define "webservice-operator.clusterNamed" -}}
{{- $root := index . 0 -}}
{{- $base := printf "%s-%s" $root.Release.Namespace (include "webservice-operator.fullname" $root) -}}
{{- include "webservice-operator.join" (list $base (index . 1)) -}}
{{- end }}

{{- define "webservice-operator.controller" }}{{ include "webservice-operator.named" (list . "controller") }}{{ end }}
{{- define "webservice-operator.webhook" }}{{ include "webservice-operator.named" (list . "webhook") }}{{ end }}
{{- define "webservice-operator.metrics" }}{{ include "webservice-operator.named" (list . "metrics") }}{{ end }}
{{- define "webservice-operator.uninstall" }}{{ include "webservice-operator.named" (list . "uninstall") }}{{ end }}

{{/* The name that the mutating and the validating configuration share. */}}
{{- define "webservice-operator.webhookConfiguration" }}{{ include "webservice-operator.clusterNamed" (list . "webhook") }}{{ end }}

{{/* The Secret of the CA. Self-managed and cert-manager mode share it: a change of mode keeps the key, so every certificate stays good. */}}
{{- define "webservice-operator.caSecret" -}}
{{- $own := include "webservice-operator.named" (list . "ca") -}}
{{- if eq .Values.tls.mode "cert-manager" }}{{ default $own .Values.tls.certManager.caSecretName }}{{ else }}{{ $own }}{{ end -}}
{{- end }}

{{/* The Secret that the webhook serves from. */}}
{{- define "webservice-operator.tlsSecret" -}}
{{- $own := include "webservice-operator.named" (list . "tls") -}}
{{- if eq .Values.tls.mode "secret" }}{{ .Values.tls.secret.name }}{{ else }}{{ $own }}{{ end -}}
{{- end }}

{{/* Whether the controller tells the API server whom to trust. Otherwise cert-manager does, or the user's value stands in the registration. */}}
{{- define "webservice-operator.controllerTrusts" -}}
{{- $tls := .Values.tls -}}
{{- if or (eq $tls.mode "self-managed") (and (eq $tls.mode "secret") (not $tls.secret.caBundle)) }}true{{ end -}}
{{- end }}

{{/* Where WebServices are created in dry runs, to see whether the webhook is called. */}}
{{- define "webservice-operator.probeNamespace" }}{{ first (append .Values.watchNamespaces .Release.Namespace) }}{{ end }}

{{/* The name that the API server calls the webhook by. */}}
{{- define "webservice-operator.webhookHost" -}}
{{ include "webservice-operator.webhook" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "webservice-operator.image" -}}
{{- $image := .Values.image -}}
{{- $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end -}}
{{- end }}

{{/* What selects the pods of a component: list $ COMPONENT. Never changes, since selectors cannot. */}}
{{- define "webservice-operator.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The labels of an object: list $ COMPONENT. */}}
{{- define "webservice-operator.labels" -}}
{{- $root := index . 0 -}}
{{ include "webservice-operator.selector" . }}
app.kubernetes.io/part-of: webservice-operator
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The same of what monitoring finds by labels of its own: list $ LABELS. A label that is given twice is rendered once. */}}
{{- define "webservice-operator.monitoringLabels" -}}
{{- $labels := include "webservice-operator.labels" (list (index . 0) "metrics") | fromYaml -}}
{{- merge (index . 1 | default dict | deepCopy) $labels | toYaml -}}
{{- end }}

{{/* Rules of a role, generated with a reason for each verb: list $ NAME. */}}
{{- define "webservice-operator.rules" -}}
{{- $root := index . 0 -}}
{{- tpl (get ($root.Files.Get "files/rbac.yaml" | fromYaml) (index . 1)) $root | trim -}}
{{- end }}

{{/* A role and who has it. dict: root, component, name, namespace (none: in the whole cluster), rules (their names in files/rbac.yaml), account, annotations. */}}
{{- define "webservice-operator.role" -}}
{{- $kind := ternary "Role" "ClusterRole" (hasKey . "namespace") -}}
{{- $root := .root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata: {{- include "webservice-operator.roleMetadata" . | nindent 2 }}
rules:
  {{- range .rules }}
  {{- include "webservice-operator.rules" (list $root .) | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata: {{- include "webservice-operator.roleMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ $root.Release.Namespace | quote }}
{{- end }}

{{- define "webservice-operator.roleMetadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels: {{- include "webservice-operator.labels" (list .root .component) | nindent 2 }}
{{- with .annotations }}
annotations: {{- . | nindent 2 }}
{{- end }}
{{- end }}
