package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A collector is one that runs, with a connection to it and one from it.
type collector struct {
	pprofileotlp.UnimplementedGRPCServer
	process *exec.Cmd
	log     lockedBuffer
	dir     string
	pprof   string // address
	metrics string // address
	server  *grpc.Server
	conn    *grpc.ClientConn
	client  pprofileotlp.GRPCClient

	receive func(pprofile.Profiles)
	mu      sync.Mutex
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a collector. The configuration takes the addresses to listen on, to
// send to, of its pprof and of its metrics.
func start(ctx context.Context, binary, config string) (*collector, error) {
	var addresses [4]string
	var backend net.Listener
	for i := range addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		if addresses[i] = l.Addr().String(); i == 1 {
			backend = l
			continue
		}
		_ = l.Close()
	}
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, err
	}
	c := &collector{dir: dir, pprof: addresses[2], metrics: addresses[3], server: grpc.NewServer(), receive: func(pprofile.Profiles) {}}
	pprofileotlp.RegisterGRPCServer(c.server, c)
	go func() { _ = c.server.Serve(backend) }()
	if c.conn, err = grpc.NewClient(addresses[0], grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	c.client = pprofileotlp.NewGRPCClient(c.conn)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, addresses[0], addresses[1], addresses[2], addresses[3][strings.LastIndexByte(addresses[3], ':')+1:]), 0o600); err != nil {
		return nil, err
	}
	c.process = exec.CommandContext(context.WithoutCancel(ctx), binary, "--feature-gates=service.profilesSupport", "--config", file)
	c.process.Stdout, c.process.Stderr = &c.log, &c.log
	return c, c.process.Start()
}

// Export takes what the collector sends.
func (c *collector) Export(_ context.Context, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receive(request.Profiles())
	return pprofileotlp.NewExportResponse(), nil
}

// ready waits until kernel frames come back with names.
func (c *collector) ready(ctx context.Context, f *flow) error {
	named := make(chan struct{}, 1)
	c.mu.Lock()
	c.receive = func(pd pprofile.Profiles) {
		if pd.Dictionary().FunctionTable().Len() > 1 {
			select {
			case named <- struct{}{}:
			default:
			}
		}
	}
	c.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		_, err := c.client.Export(ctx, pprofileotlp.NewExportRequestFromProfiles(f.truth.message("")))
		select {
		case <-named:
			c.mu.Lock()
			c.receive = f.receive
			c.mu.Unlock()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
			_ = err // it may not listen yet
		}
	}
	return errors.New("no frame gets a name")
}

// stop ends the collector, which has to end well.
func (c *collector) stop() error {
	err := c.process.Process.Signal(os.Interrupt)
	err = errors.Join(err, c.process.Wait(), c.conn.Close(), os.RemoveAll(c.dir))
	c.server.Stop()
	return err
}

// A sample is how large the collector is.
type sample struct {
	memory            int // bytes that are resident
	files, goroutines int
}

func (c *collector) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(c.process.Process.Pid), name)
}

func (c *collector) sample() (s sample, err error) {
	status, err := os.ReadFile(c.proc("status"))
	if err != nil {
		return s, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &s.memory); err != nil {
		return s, err
	}
	s.memory <<= 10
	files, err := os.ReadDir(c.proc("fd"))
	if err != nil {
		return s, err
	}
	s.files = len(files)
	text, err := get("http://" + c.pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscanf(text, "goroutine profile: total %d", &s.goroutines)
	return s, err
}

// cpu returns the CPU time that the collector has used.
func (c *collector) cpu() (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	stat, err := os.ReadFile(c.proc("stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, errors.Join(userErr, systemErr)
}

// checkGrowth compares the last quarter of the time with the second one.
func (r *result) checkGrowth() error {
	n := len(r.samples) / 4
	if n == 0 {
		return errors.New("too short to see growth")
	}
	var errs []error
	for _, what := range []struct {
		name      string
		of        func(sample) int
		tolerance func(before int) int
	}{
		{"memory", func(s sample) int { return s.memory }, func(before int) int { return before/4 + 16<<20 }},
		{"files", func(s sample) int { return s.files }, func(int) int { return 4 }},
		{"goroutines", func(s sample) int { return s.goroutines }, func(int) int { return 4 }},
	} {
		before, after := median(r.samples[n:2*n], what.of), median(r.samples[3*n:], what.of)
		fmt.Printf("%s: %d, then %d\n", what.name, before, after)
		if after > before+what.tolerance(before) {
			errs = append(errs, fmt.Errorf("%s grows: %d, then %d", what.name, before, after))
		}
	}
	return errors.Join(errs...)
}

func median(samples []sample, of func(sample) int) int {
	sorted := slices.Clone(samples)
	slices.SortFunc(sorted, func(a, b sample) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[len(sorted)/2])
}
