package ipvs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

const web = "-A -t 192.0.2.1:80 -s wrr\n"

// request is a Sync of text to a table, without a lock.
func request(t *testing.T, m *memory, text string) Request {
	t.Helper()
	want := mustParse(t, text)
	return Request{
		Table: m, File: "f", Load: func() (*Rules, *Scope, error) { return want, &Scope{}, nil },
		Lock: func(context.Context) (func(), error) { return func() {}, nil },
	}
}

func table(t *testing.T, text string) *memory { return &memory{rules: *mustParse(t, text)} }

func (s Summary) counts() Summary {
	s.Duration = 0
	return s
}

func TestSync(t *testing.T) {
	m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2\n-A -t 192.0.2.2:80\n-a -t 192.0.2.2:80 -r 198.51.100.1\n")
	r := request(t, m, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2 -w 9\n-a -t 192.0.2.1:80 -r 198.51.100.3\n")
	summary, err := Sync(t.Context(), r)
	if want := (Summary{Created: 1, Updated: 1, Deleted: 2, Unchanged: 2, Passes: 2}); err != nil || summary.counts() != want {
		t.Errorf("got %+v, %v; want %+v", summary, err, want)
	}
	summary, err = Sync(t.Context(), r)
	if want := (Summary{Unchanged: 4, Passes: 1}); err != nil || summary.counts() != want {
		t.Errorf("the second time: got %+v, %v; want %+v", summary, err, want)
	}
}

// What is not ours is left alone, and what is ours is made as the file says.
func TestSyncScope(t *testing.T) {
	m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-A -t 203.0.113.1:80\n-a -t 203.0.113.1:80 -r 198.51.100.1\n-A -f 5\n-A -f 6 -6\n")
	scope, err := ParseScope("--owned-vips", "192.0.2.0/24,fwmark:6")
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, m, "-A -t 192.0.2.9:80\n")
	load := r.Load
	r.Load = func() (*Rules, *Scope, error) {
		rules, _, err := load()
		return rules, &scope, err
	}
	summary, err := Sync(t.Context(), r)
	if want := (Summary{Created: 1, Deleted: 3, Passes: 2}); err != nil || summary.counts() != want {
		t.Errorf("got %+v, %v; want %+v", summary, err, want)
	}
	if got, want := m.rules.String(), "-A -t 192.0.2.9:80 -s wlc\n-A -t 203.0.113.1:80 -s wlc\n-a -t 203.0.113.1:80 -r 198.51.100.1:80 -g -w 1\n-A -f 5 -s wlc\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// What the kernel refuses is told with its line, and does not stop the others;
// but its service loses no server, since the one that should come is not there.
func TestSyncRefused(t *testing.T) {
	m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-A -t 192.0.2.2:80\n-a -t 192.0.2.2:80 -r 198.51.100.1\n")
	m.before = func(op *Op) error {
		if op.Verb == AddServer && op.Server.Address.String() == "198.51.100.9" {
			return explain(op, unix.EINVAL)
		}
		if op.Verb == AddService && op.Service.Scheduler == "mh" {
			return explain(op, unix.ENOENT)
		}
		return nil
	}
	summary, err := Sync(t.Context(), request(t, m, web+"-a -t 192.0.2.1:80 -r 198.51.100.9\n-A -t 192.0.2.3:80 -s mh\n-a -t 192.0.2.3:80 -r 198.51.100.1\n-A -t 192.0.2.4:80\n"))
	if want := (Summary{Created: 1, Deleted: 2, Unchanged: 1, Passes: 2}); summary.counts() != want {
		t.Errorf("got %+v, want %+v", summary, want)
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"f:2: -a -t 192.0.2.1:80 -r 198.51.100.9:80 -g -w 1: the kernel refuses it: is 198.51.100.9 an address of a single host",
		"f:3: -A -t 192.0.2.3:80 -s mh: the kernel has no scheduler mh: it is in the module ip_vs_mh",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	var refused *RefusedError
	if !errors.As(err, &refused) || strings.Count(err.Error(), "f:") != 2 {
		t.Errorf("got %v", err)
	}
	if got, want := m.rules.String(), "-A -t 192.0.2.1:80 -s wrr\n-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1\n-A -t 192.0.2.4:80 -s wlc\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// With a drain it is the same: no server of that service goes to weight 0, neither
// because it is to be deleted nor because the file says so. What drains elsewhere
// is deleted in the end.
func TestDrainRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "-A -t 192.0.2.2:80\n-a -t 192.0.2.2:80 -r 198.51.100.1\n"
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2\n"+other+"-a -t 192.0.2.2:80 -r 198.51.100.2\n")
		second, _ := find(&m.rules, mustParse(t, other).Services[0].ServiceKey)
		second.Servers[1].connections = 1
		refuse := true
		m.before = func(op *Op) error {
			if refuse && op.Verb == AddServer && op.Server.Address.String() == "198.51.100.9" {
				return explain(op, unix.EINVAL)
			}
			return nil
		}
		r := request(t, m, web+"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 0\n-a -t 192.0.2.1:80 -r 198.51.100.9\n"+other)
		r.Drain = 5 * time.Second
		summary, err := Sync(t.Context(), r)
		var refused *RefusedError
		if !errors.As(err, &refused) || summary.Deleted != 1 || summary.Drained != 1 {
			t.Errorf("got %v, %+v", err, summary)
		}
		if got, want := m.rules.String(), web+"-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1\n-a -t 192.0.2.1:80 -r 198.51.100.2:80 -g -w 1\n"+
			"-A -t 192.0.2.2:80 -s wlc\n-a -t 192.0.2.2:80 -r 198.51.100.1:80 -g -w 1\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		refuse = false
		if summary, err := Sync(t.Context(), r); err != nil || summary.Created != 1 || summary.Updated != 1 || summary.Deleted != 1 {
			t.Errorf("when it is taken: got %v, %+v", err, summary)
		}
	})
}

// Somebody else adds and deletes the same while we are at it.
func TestSyncRaced(t *testing.T) {
	m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n")
	raced := false
	m.before = func(op *Op) error {
		if !raced {
			raced = true
			m.rules = *mustParse(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.3 -w 7\n")
		}
		return nil
	}
	summary, err := Sync(t.Context(), request(t, m, web+"-a -t 192.0.2.1:80 -r 198.51.100.3\n"))
	if want := (Summary{Updated: 1, Unchanged: 1, Passes: 3}); err != nil || summary.counts() != want {
		t.Errorf("got %+v, %v; want %+v", summary, err, want)
	}
}

func TestSyncAgainstSomebody(t *testing.T) {
	m := table(t, "")
	m.onRead = func() { m.rules = Rules{} }
	_, err := Sync(t.Context(), request(t, m, web))
	if err == nil || !strings.Contains(err.Error(), "the table does not come to rest: after 10 passes 1 changes are left") {
		t.Errorf("got %v", err)
	}
}

func TestSyncWithoutRights(t *testing.T) {
	m := table(t, web)
	m.before = func(*Op) error { return unavailable(unix.EPERM) }
	_, err := Sync(t.Context(), request(t, m, "-A -t 192.0.2.2:80\n"))
	var u *UnavailableError
	if !errors.As(err, &u) {
		t.Errorf("got %v", err)
	}
}

// When the time is up, Sync stops between two changes and says how far it was.
func TestSyncStopped(t *testing.T) {
	m := table(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	m.before = func(*Op) error {
		cancel()
		return nil
	}
	_, err := Sync(ctx, request(t, m, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n"))
	if err == nil || err.Error() != "stopped after 1 of 2 changes; the next sync does the rest: context canceled" || len(m.did) != 1 {
		t.Errorf("got %v after %v", err, m.did)
	}
}

// What was refused before it stopped is told, too.
func TestSyncStoppedAfterRefusal(t *testing.T) {
	m := table(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	m.before = func(op *Op) error {
		cancel()
		return explain(op, unix.ENOENT)
	}
	_, err := Sync(ctx, request(t, m, web+"-A -t 192.0.2.2:80\n"))
	var list interface{ WrappedErrors() []error }
	if !errors.As(err, &list) || len(list.WrappedErrors()) != 2 {
		t.Fatalf("got %v", err)
	}
	if got := list.WrappedErrors(); !strings.HasPrefix(got[0].Error(), "stopped after 0 of 2 changes") || !strings.HasPrefix(got[1].Error(), "f:1: -A -t 192.0.2.1:80") {
		t.Errorf("got %v", got)
	}
}

func TestSyncBadFile(t *testing.T) {
	m := table(t, web)
	r := request(t, m, "")
	r.Load = func() (*Rules, *Scope, error) {
		_, err := Parse("f", "-A -t foo:80")
		return nil, nil, err
	}
	summary, err := Sync(t.Context(), r)
	var fault *Fault
	if !errors.As(err, &fault) || m.reads != 0 || summary.Passes != 0 {
		t.Errorf("got %v after %d reads", err, m.reads)
	}
}

// A server that goes has weight 0 before, for as long as it has connections
// or until its time is over; one that has none goes at once.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2\n-a -t 192.0.2.1:80 -r 198.51.100.3\n-A -t 192.0.2.2:80\n-a -t 192.0.2.2:80 -r 198.51.100.1\n")
		m.rules.Services[0].Servers[1].connections = 5 // .2, until its time is over
		m.rules.Services[1].Servers[0].connections = 1 // until its connection ends
		second := m.rules.Services[1].ServiceKey
		begin := time.Now()
		m.onRead = func() {
			if s, ok := find(&m.rules, second); ok && time.Since(begin) > 3500*time.Millisecond {
				s.Servers[0].connections = 0
			}
		}
		r := request(t, m, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n")
		var loaded, locked int
		load := r.Load
		r.Load = func() (*Rules, *Scope, error) { loaded++; return load() }
		r.Lock = func(context.Context) (func(), error) { locked++; return func() {}, nil }
		r.Drain = 10 * time.Second
		summary, err := Sync(t.Context(), r)
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		want := []string{
			"-e -t 192.0.2.1:80 -r 198.51.100.2:80 -g -w 0", "-e -t 192.0.2.1:80 -r 198.51.100.3:80 -g -w 0",
			"-e -t 192.0.2.2:80 -r 198.51.100.1:80 -g -w 0",
			"-d -t 192.0.2.1:80 -r 198.51.100.3:80", // had no connection
			"-D -t 192.0.2.2:80",                    // after 4 s
			"-d -t 192.0.2.1:80 -r 198.51.100.2:80", // after 10 s
		}
		if err != nil || !slices.Equal(m.did, want) {
			t.Errorf("%v, did\n%s\nwant\n%s", err, strings.Join(m.did, "\n"), strings.Join(want, "\n"))
		}
		if summary.Deleted != 4 || summary.Drained != 3 || summary.Updated != 0 || locked != 11 || loaded != locked {
			t.Errorf("got %+v, locked %d times, loaded %d times", summary, locked, loaded)
		}
	})
}

// A server that had weight 0 before, since who knows when, drains like the others.
func TestDrainOfQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 0\n-a -t 192.0.2.1:80 -r 198.51.100.2 -w 0\n")
		m.rules.Services[0].Servers[0].connections = 1
		r := request(t, m, web)
		r.Drain = 10 * time.Second
		begin := time.Now()
		summary, err := Sync(t.Context(), r)
		if took := time.Since(begin); err != nil || took != 10*time.Second || summary.Drained != 0 || summary.Deleted != 2 {
			t.Errorf("got %v, %+v after %v", err, summary, took)
		}
	})
}

// While a server drains, the file may want it again.
func TestDrainTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 3\n")
		m.rules.Services[0].Servers[0].connections = 1
		r := request(t, m, web)
		again := mustParse(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 3\n")
		begin := time.Now()
		load := r.Load
		r.Load = func() (*Rules, *Scope, error) {
			if time.Since(begin) > 4*time.Second {
				return again, &Scope{}, nil
			}
			return load()
		}
		r.Drain = time.Minute
		summary, err := Sync(t.Context(), r)
		if err != nil || summary.Deleted != 0 || !m.rules.Equal(again) {
			t.Errorf("%v, %+v\n%s", err, summary, &m.rules)
		}
	})
}

// Somebody gives a server that drains a weight: it drains anew.
func TestDrainDisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n")
		m.rules.Services[0].Servers[0].connections = 1
		begin := time.Now()
		m.onRead = func() {
			if m.reads == 7 { // 5 s later
				m.rules.Services[0].Servers[0].Weight = 9
			}
		}
		r := request(t, m, web)
		r.Drain = 10 * time.Second
		summary, err := Sync(t.Context(), r)
		if took := time.Since(begin); err != nil || took != 15*time.Second || summary.Drained != 2 || summary.Deleted != 1 {
			t.Errorf("got %v, %+v after %v", err, summary, took)
		}
	})
}

// Somebody who always gives the weight back does not keep us for ever.
func TestDrainAgainstSomebody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n")
		m.rules.Services[0].Servers[0].connections = 1
		m.onRead = func() {
			if m.reads%5 == 0 {
				m.rules.Services[0].Servers[0].Weight = 1
			}
		}
		r := request(t, m, web)
		r.Drain = time.Minute
		_, err := Sync(t.Context(), r)
		if err == nil || !strings.HasPrefix(err.Error(), "real server 198.51.100.1:80 of service 192.0.2.1:80/TCP does not drain: 10 times it was at weight 0") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWithDrain(t *testing.T) {
	from := mustParse(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2 -w 0\n-A -t 192.0.2.2:80\n-a -t 192.0.2.2:80 -r 198.51.100.1 -w 5\n")
	to := mustParse(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.3\n")
	const want = "-a -t 192.0.2.1:80 -r 198.51.100.3:80 -g -w 1\n-e -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 0\n-e -t 192.0.2.2:80 -r 198.51.100.1:80 -g -w 0\n" +
		"-d -t 192.0.2.1:80 -r 198.51.100.1:80\n-d -t 192.0.2.1:80 -r 198.51.100.2:80\n-D -t 192.0.2.2:80\n"
	ops := WithDrain(Diff(from, to))
	if got := Print(ops); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if s := Plan(ops, to); s != (Summary{Created: 1, Drained: 2, Deleted: 4, Unchanged: 1}) {
		t.Errorf("got %+v", s)
	}
	if got := WithDrain(Diff(&Rules{}, to)); len(got) != 2 {
		t.Errorf("got\n%s", Print(got))
	}
}

func TestDrainStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := table(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n")
		m.rules.Services[0].Servers[0].connections = 1
		r := request(t, m, web)
		r.Drain = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Sync(ctx, r)
		if err == nil || !strings.HasPrefix(err.Error(), "stopped while real servers drain (1); they stay at weight 0 until the next sync") {
			t.Errorf("got %v", err)
		}
		if got := m.rules.Services[0].Servers; len(got) != 1 || got[0].Weight != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestLock: one at a time, and who waits is told, and can be stopped.
func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "lock")
	silent := func() {}
	unlock, err := Lock(t.Context(), file, silent)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	if _, err := Lock(ctx, file, func() { told++; cancel() }); !errors.Is(err, context.Canceled) || told != 1 ||
		err.Error() != "stopped while another sync has "+file+" locked: context canceled" {
		t.Errorf("the second got %v, told %d times", err, told)
	}
	got := make(chan error)
	go func() {
		unlock, err := Lock(t.Context(), file, silent)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Errorf("the third got %v", err)
	}
	// Whoever waits for a file that is deleted takes the one that is there then.
	unlock, err = Lock(t.Context(), file, silent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	unlock2, err := Lock(t.Context(), file, silent)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	ctx, cancel = context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	if _, err := Lock(ctx, file, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the file that is there is not locked: %v", err)
	}
	unlock2()
	if _, err := Lock(t.Context(), filepath.Join(file, "below"), silent); err == nil || !strings.Contains(err.Error(), "must be a folder that this user may write to") {
		t.Errorf("got %v", err)
	}
}
