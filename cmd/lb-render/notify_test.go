package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestServiceManagerIsTold plays systemd: READY after the first pass, WATCHDOG
// while it runs, RELOADING and READY around a reload, STOPPING at the end.
func TestServiceManagerIsTold(t *testing.T) {
	dir := fixture(t)
	// A path of its own: a socket's is limited to 108 bytes.
	sockets, err := os.MkdirTemp("", "lbr")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(sockets, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	var mu sync.Mutex
	var said []string
	go func() { // ends when the socket is closed
		buf := make([]byte, 4096)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			said = append(said, string(buf[:n]))
			mu.Unlock()
		}
	}()
	heard := func(what string, times int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, s := range said {
				if strings.HasPrefix(s, what) {
					n++
				}
			}
			return n >= times
		}
	}
	cmd := exec.Command("lb-render", "run")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LB_RENDER_CONFIG=lb-render.yaml", "NOTIFY_SOCKET="+filepath.Join(sockets, "notify"), "WATCHDOG_USEC=300000",
		"STATE_DIRECTORY="+filepath.Join(dir, "state-of-systemd"), "RUNTIME_DIRECTORY="+filepath.Join(dir, "run-of-systemd")+":/nowhere")
	if err := os.Mkdir(filepath.Join(dir, "state-of-systemd"), 0o755); err != nil {
		t.Fatal(err)
	}
	logFile, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	cmd.Stderr = logFile
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := func() string { return read(t, logFile.Name()) }
	eventually(t, "READY", heard("READY=1", 1), log)
	eventually(t, "STATUS", heard("STATUS=all 1 outputs in sync", 1), log)
	eventually(t, "WATCHDOG", heard("WATCHDOG=1", 3), log)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "RELOADING", heard("RELOADING=1", 1), log)
	eventually(t, "READY again", heard("READY=1", 2), log)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log())
	}
	eventually(t, "STOPPING", heard("STOPPING=1", 1), log)
	mu.Lock()
	first := slices.Index(said, "READY=1")
	mu.Unlock()
	if first < 0 || read(t, filepath.Join(dir, "daemon.cfg")) == "" {
		t.Errorf("READY before the first pass: %q", said)
	}
	// systemd's directories win over the config's.
	if read(t, filepath.Join(dir, "state-of-systemd/last-valid.json")) == "" || read(t, filepath.Join(dir, "run-of-systemd/lb.hash")) == "" {
		t.Error("STATE_DIRECTORY and RUNTIME_DIRECTORY are not used")
	}
}
