// SPDX-License-Identifier: Apache-2.0

// Package k8sattributestest tests the configuration that docs/collector.md gives for the processor k8s_attributes, with the
// processor itself. It is a module of its own, so that Kubernetes is no dependency of kernelsym.
package k8sattributestest
