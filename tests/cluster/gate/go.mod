// gate, the process that holds a node's namespaces and lets the machine's loopback in.
module webservice-operator.local/cluster/gate

go 1.26.6
