// SPDX-License-Identifier: Apache-2.0

package bpf

import "errors"

// The errors of listing programs.
var (
	// ErrPermission names the capability that a process needs.
	ErrPermission = errors.New("not permitted to list BPF programs: grant CAP_SYS_ADMIN")

	// ErrUnsupported says that the kernel was built without bpf(2), or is too old for the
	// requested information (before Linux 5.1).
	ErrUnsupported = errors.New("this kernel or machine cannot list BPF programs")

	// ErrStats says that the kernel cannot count the runs of programs.
	ErrStats = errors.New("this kernel does not count the runs of BPF programs: BPF_ENABLE_STATS needs Linux 5.8")

	// ErrStatsPermission names the capability that EnableStats needs.
	ErrStatsPermission = errors.New("not permitted to count the runs of BPF programs: grant CAP_SYS_ADMIN")

	// ErrGone says that no object has the id any more.
	ErrGone = errors.New("unloaded in the meantime")

	// ErrHidden says that the kernel reveals no addresses (bpf_dump_raw_ok in
	// include/linux/filter.h).
	ErrHidden = errors.New("the kernel hides the addresses of BPF programs: " +
		"grant CAP_SYSLOG and set the sysctl kernel.kptr_restrict to 0 or 1")
)

// Want says which details of a program to ask for.
type Want uint8

// The details that can be asked for, in addition to the addresses of functions.
const (
	WantFunctions Want = 1 << iota // their lengths, tags and types
	WantLines
)

// A Program is the kernel's description of a BPF program. It is valid until the reader's next
// call.
type Program struct {
	ID       uint32
	Type     uint32 // enum bpf_prog_type
	Tag      [8]byte
	Name     string // truncated to 15 bytes
	LoadTime int64  // when loading it began, in nanoseconds of CLOCK_BOOTTIME
	BTF      uint32 // id of its BTF object, 0 if it has none
	Creator  uint32 // user id of the process that loaded it
	Stats    Stats

	Functions []Function // the main one first; none if it is not JITed
	Lines     []Line
}

// Stats are the runs of a program while the kernel counted them; see EnableStats.
type Stats struct {
	Runs    uint64
	RunTime uint64 // of all runs, in nanoseconds
}

// A Function is one function of a program. Fields other than Addr are zero unless they were
// asked for.
type Function struct {
	Addr uint64
	Len  uint32 // in bytes
	Tag  [8]byte
	Type uint32 // its type in the BTF object, 0 if it has none
}

// A Line gives the source line of the code from an address up to the next Line of the same
// function.
type Line struct {
	Addr    uint64
	File    uint32 // offset of its name in the BTF object
	LineCol uint32 // the line in the upper 22 bits, the column in the others
}

// typeNames are the names of enum bpf_prog_type, as bpftool prints them.
var typeNames = [...]string{
	"unspec", "socket_filter", "kprobe", "sched_cls", "sched_act", "tracepoint", "xdp", "perf_event",
	"cgroup_skb", "cgroup_sock", "lwt_in", "lwt_out", "lwt_xmit", "sock_ops", "sk_skb", "cgroup_device",
	"sk_msg", "raw_tracepoint", "cgroup_sock_addr", "lwt_seg6local", "lirc_mode2", "sk_reuseport",
	"flow_dissector", "cgroup_sysctl", "raw_tracepoint_writable", "cgroup_sockopt", "tracing", "struct_ops",
	"ext", "lsm", "sk_lookup", "syscall", "netfilter",
}

// TypeName returns the name of the program's type, or an empty string for a type that is newer
// than this list.
func (p *Program) TypeName() string {
	if int(p.Type) < len(typeNames) {
		return typeNames[p.Type]
	}
	return ""
}
