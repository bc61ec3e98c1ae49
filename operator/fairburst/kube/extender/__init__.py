"""The scheduler extender: which nodes suit a pod of a managed namespace, answered to kube-scheduler from memory."""
