// SPDX-License-Identifier: Apache-2.0

// Package otlp reads and extends the tables of one OTLP profiles message: contract 1.4 to 1.6, 4.4 and 4.5. It
// knows no kernel.
//
// A profiles message has one dictionary of tables. Their entries refer to each other by index:
//
//	sample ─► stack ─► location ─► mapping ─► attribute ─► string
//	                       │                                 ▲
//	                       └─► line ─► function ─────────────┘
//
// [Message.Open] gives access to the tables and reads nothing. [Message.Check] follows every index once. After
// that, the Intern methods return the index of an entry with some content, and append it if there is none. The calls
// for one message have this order:
//
//	Open ─► Attributes.Read ─► Check ─► MakeOwn ─► Mappings.SetRange ─► Intern methods ─► Close
//	        classifies         copies   only now may
//	                           stacks   anything change
//
// # The one idea
//
// An entry can be shared by everything in the message, so no entry is ever changed except the locations and
// samples that are rewritten. Anything new is appended, once:
//
//	location 1 ─┬─► function 1      a file for           location 1 ───► function 9, appended
//	location 2 ─┘                   location 1 only:     location 2 ───► function 1, as it came
//
// A message remains valid whatever is appended, because Check refuses a message with an index behind the end of a
// table.
//
// # Entry 0
//
// Index 0 of every table means "none", and its entry is the zero value. In some messages entry 0 is another
// one, and an index 0 can mean either none or that entry (contract 1.6). Such an index is
// ambiguous here: callers are told, and it is never written.
package otlp
