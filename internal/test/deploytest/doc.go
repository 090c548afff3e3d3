// SPDX-License-Identifier: Apache-2.0

// Package deploytest has the tests of what stands in deploy/: the image is built by
// the steps of its Dockerfile, the manifests are rendered and decoded against the
// types of Kubernetes, and the agent runs in a container that is made of them.
//
// It is a module of its own so that those who build a collector with kernelsym do
// not get what these tests need.
package deploytest
