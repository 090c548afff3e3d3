// SPDX-License-Identifier: Apache-2.0

// Package kernelstack samples the kernel stacks of running or of waiting threads on all CPUs, and turns them into
// profiles. The receiver "kernelstack" sends these on, and the tool's command top counts them.
//
// A Sampler opens perf rings for the threads that its options name, Running or Waiting. A session reads the rings, batch by
// batch. It applies records of threads and cgroups to the names, and gives the records of the event to a sampler, which puts
// samples into an outbox. The outbox sends them in messages. A record is given to the sampler while the names are those of
// the record's time.
//
//	rings     n──s──s──n──s──┤──s──n──s──┤──s──s──┤    n: of a name; s: of the event; ┤: a batch ends
//	names     ▲        ▲           ▲                   advance
//	running      ●  ●     ●     ●     ●     ●  ●       record: each is a sample
//	waiting                  ●           ●        ●    confirm: the waits that have ended; endInterval: those that go on
//	outbox    ├───────────────────────────────────▶    send
//
// The sampler running leaves out the idle loop (idle). The sampler waiting pairs the switches of threads (waits), and a wait
// is a sample when it is known that no record is missing. Waits that began before recording are read from elsewhere (blocked),
// for the command top alone. After too many switches, the session pauses, and goes on with a new sampler. A new session
// follows once the kernel is located whose addresses were missing, or a process goes on whose events the kernel has ended.
//
// The names are those of threads (threads), and the containers of cgroups (cgroups, by the paths that container.go reads, and
// claims, where several cgroups have the name of one container).
package kernelstack
