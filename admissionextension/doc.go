// SPDX-License-Identifier: Apache-2.0

// Package admissionextension is an extension that lets OTLP profiles into receivers only while there is memory for them. It
// is a middleware for the servers of receivers. Package admission decides.
package admissionextension
