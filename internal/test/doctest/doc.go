// SPDX-License-Identifier: Apache-2.0

// Package doctest has the tests that compare the pages in docs/ with the code: the rule numbers
// that the code cites, what each privilege buys, and a remedy for every message.
package doctest
