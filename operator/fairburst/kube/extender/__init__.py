"""The scheduler extender: tells kube-scheduler which nodes suit a pod of a managed namespace, from memory."""
