package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// idKey is the resource attribute by which a message is known again.
const idKey = "soak.id"

// A flow sends profiles through a collector, and checks those that come out.
type flow struct {
	truth *truth
	sends bool

	mu       sync.Mutex
	expected map[string]string // names of BPF functions by message
	wrong    []error

	loaded, profiles              atomic.Int64
	core, bpf, bpfUnnamed, stacks atomic.Int64 // frames that were checked
}

func newFlow(t *truth, sends bool) *flow {
	return &flow{truth: t, sends: sends, expected: make(map[string]string)}
}

// late is how long after a program is gone its samples are sent.
const late = 2 * time.Second

// run lets BPF programs come and go until ctx is done, some at a time, and sends
// profiles of the kernel, and of each program after it is gone.
func (f *flow) run(ctx context.Context, c *collector) error {
	var gone sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		prog, err := load(n)
		if err != nil {
			return err
		}
		f.loaded.Add(1)
		time.Sleep(20 * time.Millisecond)
		at := time.Now()
		time.Sleep(20 * time.Millisecond)
		if err := prog.Close(); err != nil {
			return err
		}
		if !f.sends {
			continue
		}
		id := strconv.Itoa(n)
		f.mu.Lock()
		f.expected[id] = prog.name
		f.mu.Unlock()
		gone.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(late):
				f.send(ctx, c, prog.message(id, at))
			}
		})
		f.send(ctx, c, f.truth.message("core"))
	}
	gone.Wait()
	return nil
}

// send sends a profile, also when the time is over meanwhile.
func (f *flow) send(ctx context.Context, c *collector, pd pprofile.Profiles) {
	_, err := c.client.Export(context.WithoutCancel(ctx), pprofileotlp.NewExportRequestFromProfiles(pd))
	if err != nil {
		f.fail(fmt.Errorf("a profile is refused: %w", err))
		return
	}
	f.profiles.Add(1)
}

func (f *flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, err)
}

// receive checks a message that comes out.
func (f *flow) receive(pd pprofile.Profiles) {
	if err := rewritetest.CheckValid(pd); err != nil {
		f.fail(err)
		return
	}
	id, ok := pd.ResourceProfiles().At(0).Resource().Attributes().Get(idKey)
	for i, s := range rewritetest.Samples(pd) {
		switch {
		case !ok:
			f.checkStack(s.Stack)
		case id.Str() == "core":
			f.core.Add(1)
			if lines := s.Stack[0].Lines; len(lines) != 1 || lines[0].System != f.truth.wants[i] {
				f.fail(fmt.Errorf("%s is named %+v", f.truth.wants[i], lines))
			}
		case id.Str() != "":
			f.checkProgram(id.Str(), s.Stack[0])
		}
	}
}

// checkProgram checks the frame of a program: its address has had many.
func (f *flow) checkProgram(id string, frame rewritetest.Frame) {
	f.mu.Lock()
	want := f.expected[id]
	delete(f.expected, id)
	f.mu.Unlock()
	f.bpf.Add(1)
	switch {
	case len(frame.Lines) == 0:
		f.bpfUnnamed.Add(1)
	case frame.Lines[0].System != want:
		f.fail(fmt.Errorf("%s is named %s", want, frame.Lines[0].System))
	}
}

// checkStack checks a stack that was really taken.
func (f *flow) checkStack(stack []rewritetest.Frame) {
	for _, frame := range stack {
		if len(frame.Lines) == 0 || frame.Address < f.truth.starts[0] || frame.Address >= f.truth.end {
			continue
		}
		f.stacks.Add(1)
		if name := frame.Lines[0].System; !f.truth.isName(frame.Address, name) {
			f.fail(fmt.Errorf("%x is named %s", frame.Address, name))
		}
	}
}

func (f *flow) String() string {
	return fmt.Sprintf("%d frames of known functions, %d of sampled stacks, %d of BPF programs %s gone (%d of them without a name)",
		f.core.Load(), f.stacks.Load(), f.bpf.Load(), late, f.bpfUnnamed.Load())
}

// check fails for a wrong name, and where next to nothing was named.
func (f *flow) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.wrong); n > 0 {
		return fmt.Errorf("%d times wrong, first: %w", n, f.wrong[0])
	}
	if f.core.Load() == 0 || f.stacks.Load() == 0 || f.bpf.Load() == 0 || f.bpfUnnamed.Load() > f.bpf.Load()/20 {
		return errors.New("too few names")
	}
	return nil
}

// A program is a BPF program.
type program struct {
	*ebpf.Program
	addr uint64
	name string // the kernel's
}

// load loads a program unlike the last ones, of a size that many have.
func load(n int) (*program, error) {
	name := fmt.Sprintf("soak_%d", n%1000)
	insns := asm.Instructions{asm.Mov.Imm(asm.R0, int32(n))}
	for range n % 4 {
		insns = append(insns, asm.Add.Imm(asm.R0, 1))
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: append(insns, asm.Return()),
	})
	if err != nil {
		return nil, err
	}
	info, err := prog.Info()
	if err != nil {
		return nil, errors.Join(err, prog.Close())
	}
	addrs, ok := info.JitedKsymAddrs()
	if _, err := hex.DecodeString(info.Tag); err != nil || !ok || len(addrs) == 0 {
		return nil, errors.Join(errors.New("the kernel does not say where a program lies"), prog.Close())
	}
	return &program{prog, uint64(addrs[0]), "bpf_prog_" + info.Tag + "_" + name}, nil
}

// message returns a profile of one sample in the program, at a time.
func (p *program) message(id string, at time.Time) pprofile.Profiles {
	m := rewritetest.NewMessage().Profile(map[string]any{idKey: id}, "")
	m.Sample(rewritetest.Frame{Address: p.addr, Type: "kernel"})
	m.LastSample().TimestampsUnixNano().Append(uint64(at.UnixNano()))
	return m.Profiles
}
