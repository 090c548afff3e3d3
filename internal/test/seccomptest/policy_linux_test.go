// SPDX-License-Identifier: Apache-2.0

package seccomptest

import (
	"encoding/json"
	"fmt"

	containerd "github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	podman "go.podman.io/common/pkg/seccomp"
	"golang.org/x/sys/unix"
)

// A runtime returns its default profile for a container.
type runtime struct {
	name    string
	profile func(*specs.Spec) (*specs.LinuxSeccomp, error)
}

var runtimes = []runtime{
	{"moby", moby.GetDefaultProfile},
	{"containerd", func(s *specs.Spec) (*specs.LinuxSeccomp, error) { return containerd.DefaultProfile(s), nil }},
	{"podman", podmansProfile},
}

// podmansProfile returns the default profile of Podman and CRI-O, which has moby's form. Their
// own function needs libseccomp.
func podmansProfile(s *specs.Spec) (*specs.LinuxSeccomp, error) {
	text, err := json.Marshal(podman.DefaultProfile())
	if err != nil {
		return nil, err
	}
	return moby.LoadProfile(string(text), s)
}

// policy returns a runtime's filter for a container with capabilities, which are named like SYSLOG.
func (r runtime) policy(caps []string) (seccomp.Policy, error) {
	var full []string
	for _, name := range caps {
		full = append(full, "CAP_"+name)
	}
	profile, err := r.profile(&specs.Spec{Process: &specs.Process{
		Capabilities: &specs.LinuxCapabilities{Bounding: full, Effective: full, Permitted: full},
	}})
	if err != nil {
		return seccomp.Policy{}, err
	}
	return policyOf(profile)
}

// policyOf translates a profile. It leaves out system calls that this architecture does not
// have, as libseccomp does.
func policyOf(profile *specs.LinuxSeccomp) (p seccomp.Policy, err error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return p, err
	}
	if profile.DefaultAction != specs.ActErrno {
		return p, fmt.Errorf("no translation of the default action %s", profile.DefaultAction)
	}
	p.DefaultAction = seccomp.ActionErrno // with EPERM, even for ENOSYS: what assembles it supports no other
	for _, call := range profile.Syscalls {
		group := seccomp.SyscallGroup{}
		if group.Action, err = actionOf(call.Action, call.ErrnoRet); err != nil {
			return p, err
		}
		conditions, err := conditionsOf(call.Args)
		if err != nil {
			return p, err
		}
		for _, name := range call.Names {
			switch _, known := machine.SyscallNames[name]; {
			case !known:
			case len(conditions) > 0:
				group.NamesWithCondtions = append(group.NamesWithCondtions, seccomp.NameWithConditions{Name: name, Conditions: conditions})
			default:
				group.Names = append(group.Names, name)
			}
		}
		p.Syscalls = append(p.Syscalls, group)
	}
	return p, nil
}

func actionOf(action specs.LinuxSeccompAction, errno *uint) (seccomp.Action, error) {
	switch {
	case action == specs.ActAllow:
		return seccomp.ActionAllow, nil
	case action == specs.ActErrno && (errno == nil || *errno == uint(unix.EPERM)):
		return seccomp.ActionErrno, nil // EPERM
	case action == specs.ActErrno:
		return seccomp.ActionErrno | seccomp.Action(*errno), nil
	}
	return 0, fmt.Errorf("no translation of the action %s", action)
}

// conditionsOf translates conditions that must all be true.
func conditionsOf(args []specs.LinuxSeccompArg) (list seccomp.ArgumentConditions, err error) {
	for _, arg := range args {
		c := seccomp.Condition{Argument: uint32(arg.Index), Value: arg.Value}
		switch {
		case arg.Op == specs.OpEqualTo:
			c.Operation = seccomp.Equal
		case arg.Op == specs.OpNotEqual:
			c.Operation = seccomp.NotEqual
		case arg.Op == specs.OpMaskedEqual && arg.ValueTwo == 0:
			c.Operation = seccomp.BitsNotSet
		default:
			return nil, fmt.Errorf("no translation of the condition %+v", arg)
		}
		list = append(list, c)
	}
	return list, nil
}
