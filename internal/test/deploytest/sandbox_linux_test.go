// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// sandboxEnv makes the test binary act as what a container runtime starts: it confines itself and
// becomes the container's command.
const sandboxEnv = "KERNELSYM_TEST_SANDBOX"

// A sandbox says how a process confines itself. It already runs in new namespaces.
type sandbox struct {
	Root         string
	Mounts       []mount
	Hidden       []string // files and directories that the container finds empty
	Capabilities []string // such as SYS_ADMIN
	UID, GID     int
	Args, Env    []string
}

// A mount is a file or directory that the container sees, read only unless it is writable.
type mount struct {
	Source, Target string
	ReadOnlyBelow  bool // mounts below it are read-only, too
	Writable       bool
}

func init() {
	text := os.Getenv(sandboxEnv)
	if text == "" {
		return
	}
	runtime.LockOSThread() // capabilities belong to the thread
	var s sandbox
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.enter()
	}
	fmt.Fprintln(os.Stderr, "sandbox:", err)
	os.Exit(1)
}

// enter returns only if something fails.
func (s *sandbox) enter() error {
	for _, step := range []func() error{s.network, s.mount, s.pivot, s.drop} {
		if err := step(); err != nil {
			return err
		}
	}
	return unix.Exec(s.Args[0], s.Args, s.Env)
}

// network brings the loopback interface up, as in every pod.
func (s *sandbox) network() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	_, err = net.InterfaceByName("lo")
	return err
}

// mount makes the mounts that every container has, and the manifest's own.
func (s *sandbox) mount() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	at := func(name string) string { return filepath.Join(s.Root, name) }
	for _, dir := range []string{"proc", "sys", "dev"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			return err
		}
	}
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(s.Root, s.Root, "", unix.MS_BIND, ""),
		unix.Mount("proc", at("proc"), "proc", safe, ""),
		unix.Mount("sysfs", at("sys"), "sysfs", safe|unix.MS_RDONLY, ""),
		unix.Mount("tmpfs", at("dev"), "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"),
		unix.Mknod(at("dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
	)
	bind := func(source, target string, flags uintptr) error {
		return errors.Join(
			unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""),
			unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags|safe, ""),
		)
	}
	for _, m := range s.Mounts {
		flags := uintptr(unix.MS_RDONLY)
		if m.Writable {
			flags = 0
		}
		err = errors.Join(err, makeLike(m.Source, at(m.Target)), bind(m.Source, at(m.Target), flags))
		if m.ReadOnlyBelow {
			readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
			err = errors.Join(err, unix.MountSetattr(unix.AT_FDCWD, at(m.Target), unix.AT_RECURSIVE, &readOnly))
		}
	}
	for _, name := range s.Hidden { // as container runtimes do
		if info, statErr := os.Stat(at(name)); statErr != nil {
			err = errors.Join(err, statErr)
		} else if info.IsDir() {
			err = errors.Join(err, unix.Mount("tmpfs", at(name), "tmpfs", safe|unix.MS_RDONLY, ""))
		} else {
			err = errors.Join(err, bind(at("dev/null"), at(name), unix.MS_RDONLY))
		}
	}
	return errors.Join(err, unix.Mount("", s.Root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

// makeLike makes a directory or a file on which another can be mounted.
func makeLike(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(target, 0o755)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, nil, 0o600))
}

// pivot leaves none of the host's files.
func (s *sandbox) pivot() error {
	return errors.Join(
		unix.Chdir(s.Root),
		unix.PivotRoot(".", "."),
		unix.Unmount(".", unix.MNT_DETACH),
		unix.Chdir("/"),
	)
}

// drop gives up all rights except the manifest's, for good.
func (s *sandbox) drop() error {
	caps, err := capability.NewPid2(0)
	if err != nil {
		return err
	}
	caps.Clear(capability.CAPS | capability.BOUNDS | capability.AMBS)
	for _, name := range s.Capabilities {
		c, err := capabilityOf(name)
		if err != nil {
			return err
		}
		caps.Set(capability.BOUNDING|capability.EFFECTIVE|capability.PERMITTED, c)
	}
	return errors.Join(
		unix.Setgroups(nil),
		unix.Setresgid(s.GID, s.GID, s.GID),
		unix.Setresuid(s.UID, s.UID, s.UID),
		caps.Apply(capability.BOUNDS),
		caps.Apply(capability.CAPS),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
	)
}

func capabilityOf(name string) (capability.Cap, error) {
	for _, c := range capability.ListKnown() {
		if strings.EqualFold(c.String(), name) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("no capability %s", name)
}
