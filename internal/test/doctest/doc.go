// SPDX-License-Identifier: Apache-2.0

// Package doctest has the tests that compare the pages in docs/ with the code: the
// numbers by which the code cites the contract, what each privilege buys, and a
// remedy for every message.
package doctest
