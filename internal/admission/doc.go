// SPDX-License-Identifier: Apache-2.0

// Package admission lets OTLP profiles into a collector only while there is memory for them.
//
// A message takes up to 101 times its size when it is decoded, and gzip makes it a thousand times smaller. A limiter in
// the pipeline decides after that. A Gate decides before: it counts the entries of a message in its encoded form,
// which bounds the memory that they take (cost.go), and compares that with the memory that the process has left
// (gate.go). Hosts share the turns (queue.go).
//
//	headers ── enter ── body, decompressed ── cost ── admit ── decoded, pipeline ── done
//	           │ at most maxRequests           │       │ used + admitted + cost ≤ limit
//	           └ waits its turn                │       └ waits, collects garbage, or refuses: busy
//	                                           └ refuses: too large, malformed
//
// Middlewares attach a gate to the servers of receivers. An HTTP handler reads the body itself (http.go). gRPC has no such
// place, so four hooks of the server take the steps (grpc.go).
package admission
