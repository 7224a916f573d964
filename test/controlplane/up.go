package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// up runs the processes of dir until TERM or INT, or until one of them ends.
// It prints "ready" when the API answers. Each process logs to NAME.log.
func up(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	names := []string{"etcd"}
	urls, err := filepath.Glob(filepath.Join(dir, "apiserver-*.url"))
	if err != nil {
		return err
	}
	if len(urls) == 0 {
		return fmt.Errorf("%s has no API server; make it with: controlplane init %s", dir, dir)
	}
	for _, u := range urls {
		names = append(names, strings.TrimSuffix(filepath.Base(u), ".url"))
	}
	names = append(names, "controller-manager")
	ended := make(chan error, len(names))
	var running []*exec.Cmd
	// In reverse, so that none has to do without the one that it needs.
	defer func() {
		for _, c := range slices.Backward(running) {
			_ = c.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				_ = c.Process.Kill()
			}
		}
	}()
	for _, name := range names {
		log, err := os.Create(filepath.Join(dir, name+".log"))
		if err != nil {
			return err
		}
		defer log.Close()
		c := exec.Command(filepath.Join(dir, name))
		c.Stdout, c.Stderr = log, log
		c.SysProcAttr = child()
		if err := c.Start(); err != nil {
			return err
		}
		running = append(running, c)
		go func() { ended <- fmt.Errorf("%s has ended: %v; see %s", name, c.Wait(), log.Name()) }()
		if url, err := os.ReadFile(filepath.Join(dir, name+".url")); err == nil && name != "etcd" {
			if err := waitReady(ctx, dir, strings.TrimSpace(string(url)), ended); err != nil {
				return err
			}
		}
	}
	fmt.Println("ready")
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// waitReady returns when the server at url says that it is ready, within two minutes.
func waitReady(ctx context.Context, dir, url string, ended <-chan error) error {
	a, err := apiAt(dir, url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		_, err := a.call(http.MethodGet, "/readyz", "text/plain", nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", url, err)
		case err := <-ended:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
