// SPDX-License-Identifier: Apache-2.0

// Package deploytest tests what is in deploy/. It builds the image with the steps of its
// Dockerfile, renders the manifests and decodes them as the types of Kubernetes, and runs the agent
// in a container made from them.
//
// It is a module of its own so that a collector built with kernelsym does not depend on what these
// tests need.
package deploytest
