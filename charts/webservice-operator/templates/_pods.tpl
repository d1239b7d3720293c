{{/* What all pods have in common: list $ SERVICE-ACCOUNT. */}}
{{- define "webservice-operator.podBasics" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 1 }}
enableServiceLinks: false
securityContext: {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What all containers have in common. */}}
{{- define "webservice-operator.containerBasics" -}}
image: {{ include "webservice-operator.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
{{- end }}

{{/* Where the pods of a component run: list $ COMPONENT VALUES. */}}
{{- define "webservice-operator.scheduling" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $selector := dict "matchLabels" (include "webservice-operator.selector" (list $root $component) | fromYaml) }}
  {{- toYaml (list (merge (dict "labelSelector" $selector) .)) | nindent 2 }}
  {{- end }}
{{- end }}
{{ include "webservice-operator.placement" $values }}
{{- end }}

{{/* Where a pod may run: VALUES of the component. */}}
{{- define "webservice-operator.placement" -}}
{{- $values := . -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with get $values $field }}
{{ $field }}: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Probes and the ports that both processes have. An answer takes under a millisecond; the rest is for a busy node. The
number is for how many seconds a new pod is not asked yet whether it is ready. */}}
{{- define "webservice-operator.probes" -}}
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  {{- with . }}
  initialDelaySeconds: {{ . }}
  {{- end }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{/* Flags that both processes have: VALUES of the component. */}}
{{- define "webservice-operator.commonArgs" -}}
- --shutdown-grace={{ .shutdownGraceSeconds }}s
- --log-format={{ .log.format }}
{{- with .log.level }}
- {{ printf "--log-level=%s" . | quote }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
