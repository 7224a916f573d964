package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bench runs an Output's worker with fake commands on a fake clock. Times are
// relative to its start.
type bench struct {
	t      *testing.T
	o      *Output
	path   string
	wake   chan struct{}
	cancel context.CancelFunc
	ended  chan struct{}
	start  time.Time

	mu      sync.Mutex
	content string
	err     error
	fail    map[string]error         // by phase
	slow    map[string]time.Duration // by phase
	events  []string                 // "1s reload", …
	renders int
}

// onBench calls f in a synctest bubble, and demands that Run ends afterwards.
func onBench(t *testing.T, opts Options, f func(*bench)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, path: filepath.Join(dir, "a"), wake: make(chan struct{}, 1), ended: make(chan struct{}),
			start: time.Now(), content: "0", fail: map[string]error{}, slow: map[string]time.Duration{}}
		opts.Name, opts.RuntimeDir = "lb", filepath.Join(dir, "run")
		opts.Files = []File{{Name: "a", Path: b.path}}
		opts.Reload = argv("reload")
		if opts.Verify != nil {
			opts.Verify = argv("verify")
		}
		var err error
		if b.o, err = New(opts); err != nil {
			t.Fatal(err)
		}
		b.o.rand = func() float64 { return 0 }
		runner(b.command).install(b.o)
		var ctx context.Context
		ctx, b.cancel = context.WithCancel(t.Context())
		go func() { // ends with ctx
			defer close(b.ended)
			b.o.Run(ctx, b.wake, b.render)
		}()
		f(b)
		b.cancel()
		<-b.ended
	})
}

func (b *bench) command(phase string, _ map[string]string) error {
	b.mu.Lock()
	b.events = append(b.events, fmt.Sprintf("%v %s", time.Since(b.start), phase))
	err, slow := b.fail[phase], b.slow[phase]
	b.mu.Unlock()
	time.Sleep(slow)
	return err
}

func (b *bench) render() (Content, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renders++
	if b.err != nil {
		return nil, b.err
	}
	if b.content == "nothing" {
		return Content{"a": []byte("\n")}, nil
	}
	return Content{"a": []byte("# " + b.content)}, nil
}

// failRender makes render fail with err, or not (nil).
func (b *bench) failRender(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// wantRenders demands how often render was called so far.
func (b *bench) wantRenders(n int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.renders != n {
		b.t.Errorf("after %v: %d renders, want %d", time.Since(b.start), b.renders, n)
	}
}

// slowly makes a command take its time.
func (b *bench) slowly(phase string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow[phase] = d
}

// set changes the input and wakes the worker, as its caller would.
func (b *bench) set(content string) {
	b.mu.Lock()
	b.content = content
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	synctest.Wait()
}

func (b *bench) failing(phase string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail[phase] = err
}

// until advances the clock to d after the start.
func (b *bench) until(d time.Duration) {
	b.t.Helper()
	time.Sleep(time.Until(b.start.Add(d)))
	synctest.Wait()
}

// want demands the commands run since the last call.
func (b *bench) want(events ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.events, events) {
		b.t.Errorf("after %v: commands %q, want %q", time.Since(b.start), b.events, events)
	}
	b.events = nil
}

func (b *bench) wantFile(want string) {
	b.t.Helper()
	if got, _ := os.ReadFile(b.path); string(got) != want {
		b.t.Errorf("after %v: file %q, want %q", time.Since(b.start), got, want)
	}
}

var errDaemon = errors.New("daemon says no")

// The reload fails twice and then works, with no new event in between.
func TestRunRetries(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.failing("reload", errDaemon)
		b.set("1")
		s := b.o.State()
		if s.InSync || s.Phase != PhaseReload || s.Attempts != 1 || !s.Since.Equal(b.start) || !s.NextTry.Equal(b.start.Add(time.Second)) || s.Pending {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(s.Error, "daemon says no") {
			t.Errorf("error %q", s.Error)
		}
		b.until(2 * time.Second)
		b.failing("reload", nil)
		b.until(time.Hour)
		b.want("0s reload", "1s reload", "3s reload")
		b.wantFile("# 1\n")
		s = b.o.State()
		if !s.InSync || s.Error != "" || s.Attempts != 0 || !s.Since.IsZero() || !s.NextTry.IsZero() || s.Reloads != 3 ||
			!s.LastReload.Equal(b.start.Add(3*time.Second)) || !s.LastSuccess.Equal(s.LastReload) {
			t.Errorf("%+v", s)
		}
		// The next failure is the first of its own row.
		b.failing("reload", errDaemon)
		b.set("2")
		b.until(time.Hour + 2*time.Second)
		b.want("1h0m0s reload", "1h0m1s reload")
	})
}

func TestRunBackoff(t *testing.T) {
	onBench(t, Options{Backoff: Backoff{Min: time.Second, Max: 5 * time.Second}}, func(b *bench) {
		b.failing("reload", errDaemon)
		b.set("1")
		b.until(20 * time.Second)
		b.want("0s reload", "1s reload", "3s reload", "7s reload", "12s reload", "17s reload")
	})
}

// Newer input takes the place of the wait for a retry, but does not spin.
func TestRunWakeDuringBackoff(t *testing.T) {
	onBench(t, Options{Backoff: Backoff{Min: time.Second, Max: time.Minute}}, func(b *bench) {
		b.failing("reload", errDaemon)
		b.set("1")
		b.until(20 * time.Second)
		b.want("0s reload", "1s reload", "3s reload", "7s reload", "15s reload") // the next would be at 31 s
		b.set("2")
		b.want("20s reload")
		for i := range 100 {
			b.set(fmt.Sprint(i))
			b.until(20*time.Second + time.Duration(i+1)*10*time.Millisecond)
		}
		b.want("21s reload")
		b.failing("reload", nil)
		b.set("last")
		b.until(time.Hour)
		b.want("22s reload")
		b.wantFile("# last\n")
	})
}

// 100 changes in a burst: one reload at once, one for all the rest.
func TestRunMinInterval(t *testing.T) {
	onBench(t, Options{MinInterval: 5 * time.Second}, func(b *bench) {
		b.slowly("reload", 2*time.Second) // start to start
		b.until(time.Minute)
		for i := range 100 {
			b.set(fmt.Sprint(i))
			b.until(time.Minute + time.Duration(i+1)*10*time.Millisecond)
		}
		b.until(time.Minute + 3*time.Second)
		b.wantFile("# 0\n")
		if s := b.o.State(); !s.Pending || !s.InSync || !s.NextTry.Equal(b.start.Add(time.Minute+5*time.Second)) {
			t.Errorf("%+v", s)
		}
		b.set("newest")
		b.until(time.Hour)
		b.want("1m0s reload", "1m5s reload")
		b.wantFile("# newest\n")
		b.set("later")
		b.want("1h0m0s reload")
		b.until(time.Hour + 2*time.Second)
		if s := b.o.State(); s.Pending || !s.InSync {
			t.Errorf("%+v", s)
		}
	})
}

// A failed reload counts, so a retry waits for the later of backoff and minInterval.
func TestRunMinIntervalAfterFailure(t *testing.T) {
	onBench(t, Options{MinInterval: 5 * time.Second}, func(b *bench) {
		b.failing("reload", errDaemon)
		b.set("1")
		b.until(31 * time.Second)
		b.want("0s reload", "5s reload", "10s reload", "15s reload", "23s reload")
	})
}

func TestRunSplay(t *testing.T) {
	host := "lb1.example.org"
	wait := share(time.Minute, host)
	if wait < time.Second || wait > 59*time.Second {
		t.Fatalf("share %v is of no use here", wait)
	}
	onBench(t, Options{Splay: time.Minute, HostName: host}, func(b *bench) {
		b.set("1")
		b.want("0s reload") // the first after the start
		b.until(time.Hour)
		b.set("2")
		b.until(time.Hour + wait/2)
		b.set("3") // neither waits by itself nor defers the first
		b.want()
		if s := b.o.State(); !s.Pending {
			t.Errorf("%+v", s)
		}
		b.failing("reload", errDaemon)
		b.until(time.Hour + wait)
		b.want(fmt.Sprintf("%v reload", time.Hour+wait))
		b.failing("reload", nil)
		b.until(2 * time.Hour)
		b.want(fmt.Sprintf("%v reload", time.Hour+wait+time.Second)) // a retry is not delayed
		b.wantFile("# 3\n")
	})
}

func TestRunRenderError(t *testing.T) {
	onBench(t, Options{Resync: 10 * time.Minute}, func(b *bench) {
		b.set("1")
		b.want("0s reload")
		b.until(time.Minute)
		b.failRender(errors.New("template: no such field"))
		b.set("2")
		s := b.o.State()
		if s.InSync || s.Phase != PhaseRender || !strings.Contains(s.Error, "no such field") || !s.Since.Equal(b.start.Add(time.Minute)) {
			t.Errorf("%+v", s)
		}
		b.wantFile("# 1\n")
		b.until(9 * time.Minute)
		b.wantRenders(2)
		b.until(11 * time.Minute)
		b.wantRenders(3)
		b.failRender(nil)
		b.set("3")
		b.want("11m0s reload")
		if s := b.o.State(); !s.InSync || s.Error != "" {
			t.Errorf("%+v", s)
		}
		// Content that this output cannot write is the same.
		b.until(12 * time.Minute)
		b.set("nothing")
		if s := b.o.State(); s.Phase != PhaseRender || s.Attempts != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunNotReady(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.failRender(fmt.Errorf("haproxy: %w", ErrNotReady))
		b.set("1")
		if s := b.o.State(); s.InSync || s.Error != "" || s.Passes != 0 || s.Pending {
			t.Errorf("%+v", s)
		}
		b.until(time.Hour)
		b.wantRenders(1)
		b.failRender(nil)
		b.set("1")
		b.want("1h0m0s reload")
	})
}

// A failed reload is not forgotten over a render function that has nothing for a while.
func TestRunNotReadyDuringBackoff(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.failing("reload", errDaemon)
		b.set("1")
		b.failing("reload", nil)
		b.failRender(ErrNotReady)
		b.until(90 * time.Second)
		b.want("0s reload")
		b.failRender(nil)
		b.until(3 * time.Minute)
		if s := b.o.State(); !s.InSync {
			t.Errorf("%+v", s)
		}
		b.wantFile("# 1\n")
	})
}

// Drift: on resync a changed or missing file is put right.
func TestRunDrift(t *testing.T) {
	onBench(t, Options{Resync: 10 * time.Minute}, func(b *bench) {
		b.set("1")
		b.until(time.Minute)
		write(t, b.path, "# by hand\n")
		b.until(9 * time.Minute)
		b.wantFile("# by hand\n")
		b.until(11 * time.Minute)
		b.wantFile("# 1\n")
		if err := os.Remove(b.path); err != nil {
			t.Fatal(err)
		}
		b.until(time.Hour)
		b.wantFile("# 1\n")
		b.want("0s reload", "10m0s reload", "20m0s reload")
	})
}

// On resync the verify command runs; when it fails, a transaction with a reload
// is forced, until it succeeds.
func TestRunVerifyOnResync(t *testing.T) {
	onBench(t, Options{Resync: 10 * time.Minute, Verify: argv()}, func(b *bench) {
		b.set("1")
		b.set("1") // nothing new: no verify either
		b.until(15 * time.Minute)
		b.want("0s reload", "0s verify", "10m0s verify")
		b.failing("verify", errDaemon) // an IPVS table flushed by hand, say
		b.failing("reload", errDaemon)
		b.until(20*time.Minute + 2*time.Second)
		b.want("20m0s verify", "20m0s reload", "20m1s reload")
		if s := b.o.State(); s.InSync || s.Phase != PhaseReload {
			t.Errorf("%+v", s)
		}
		b.failing("verify", nil)
		b.failing("reload", nil)
		b.until(29 * time.Minute)
		b.want("20m3s reload", "20m3s verify")
		if s := b.o.State(); !s.InSync {
			t.Errorf("%+v", s)
		}
	})
}

// TERM while a transaction runs: it is finished.
func TestRunFinishesTheTransaction(t *testing.T) {
	onBench(t, Options{Verify: argv()}, func(b *bench) {
		b.slowly("reload", 10*time.Second)
		b.set("1")
		b.until(time.Second)
		b.cancel()
		synctest.Wait()
		select {
		case <-b.ended:
			t.Error("ended in the middle")
		default:
		}
		<-b.ended
		b.want("0s reload", "10s verify")
		if s := b.o.State(); !s.InSync {
			t.Errorf("%+v", s)
		}
	})
}

// What arrives while a transaction runs is brought into force right after it.
func TestRunWakeDuringTransaction(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.slowly("reload", 10*time.Second)
		b.set("1")
		for i := range 5 {
			b.until(time.Duration(i+1) * time.Second)
			b.set(fmt.Sprint("later ", i))
		}
		b.until(time.Minute)
		b.want("0s reload", "10s reload")
		b.wantFile("# later 4\n")
	})
}

func TestDrain(t *testing.T) {
	wake := make(chan struct{}, 3)
	wake <- struct{}{}
	wake <- struct{}{}
	if drain(wake); len(wake) != 0 {
		t.Errorf("%d left", len(wake))
	}
	close(wake)
	drain(wake) // and returns
	drain(nil)
}

func TestRunClosedWake(t *testing.T) {
	onBench(t, Options{Resync: time.Minute}, func(b *bench) {
		close(b.wake)
		b.until(90 * time.Second)
		b.want("1m0s reload")
	})
}

// A backoff with no events at all must not be a busy loop: the fake clock would stand still.
func TestRunIdle(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.until(1000 * time.Hour)
		b.wantRenders(0)
	})
}

func TestRunOnState(t *testing.T) {
	var states []State
	onBench(t, Options{OnState: func(s State) { states = append(states, s) }}, func(b *bench) {
		b.set("1")
		b.cancel()
		<-b.ended
	})
	if len(states) != 2 || !states[0].Pending || states[0].InSync || states[1].Pending || !states[1].InSync || states[1].Passes != 1 {
		t.Errorf("%+v", states)
	}
}

func TestBackoffAfter(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 10 * time.Second}
	for n, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 6: 10, 1 << 20: 10} {
		for _, r := range []float64{0, 0.5, 0.999} {
			got := b.after(n, r)
			if got < want*time.Second || got > want*time.Second*5/4 {
				t.Errorf("after(%d, %v) = %v", n, r, got)
			}
		}
	}
}

func TestShare(t *testing.T) {
	if share(0, "lb1") != 0 {
		t.Error("no splay, but a wait")
	}
	slots := map[time.Duration]int{}
	for i := range 1000 {
		d := share(10*time.Second, fmt.Sprintf("lb%d.example.org", i))
		if d != share(10*time.Second, fmt.Sprintf("lb%d.example.org", i)) || d < 0 || d >= 10*time.Second {
			t.Fatalf("share %v", d)
		}
		slots[d.Truncate(time.Second)]++
	}
	for s := range slots {
		if slots[s] < 50 || slots[s] > 150 {
			t.Errorf("%d of 1000 hosts in second %v", slots[s], s)
		}
	}
	if len(slots) != 10 {
		t.Errorf("only seconds %v", slots)
	}
}
