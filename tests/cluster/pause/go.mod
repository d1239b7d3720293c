// pause, the process that holds a pod's namespaces.
module webservice-operator.local/cluster/pause

go 1.26.6
