package output

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lb-render/lb-render/internal/command"
)

const (
	helperEnv = "LB_RENDER_OUTPUT_TEST"
	// killInReload makes the reload command kill the process that runs it.
	killInReload = "LB_RENDER_OUTPUT_TEST_KILL"
)

// helperMain is the test binary as another process: it applies one variant to a
// host, and kills itself at a step or gives up root's rights before.
//
//	LB_RENDER_OUTPUT_TEST="root variant step uid file…"
func helperMain() {
	args := strings.Fields(os.Getenv(helperEnv))
	root, variant, step, uid, files := args[0], args[1], args[2], args[3], args[4:]
	h := newHost(panicker{}, root, files...)
	h.opts.Hook = func(s string) {
		if s == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
	if os.Getenv(killInReload) != "" {
		h.opts.Reload = sh(fmt.Sprintf("cat %s/* >%s/daemon; kill -9 $PPID", h.dir, h.state))
	}
	if uid != "0" {
		if err := syscall.Setgroups(nil); err != nil {
			panic(err)
		}
		if err := syscall.Setgid(65534); err != nil {
			panic(err)
		}
		if err := syscall.Setuid(65534); err != nil {
			panic(err)
		}
	}
	if _, err := h.output().Apply(context.Background(), h.content(variant)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// panicker is a testing.TB for where there is no test.
type panicker struct{ testing.TB }

func (panicker) Helper()           {}
func (panicker) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// helper runs helperMain.
func helper(t *testing.T, root, variant, step, uid string, files ...string) (command.Result, error) {
	t.Helper()
	args := append([]string{root, variant, step, uid}, files...)
	return command.Run(t.Context(), command.Spec{
		Argv: []string{os.Args[0]},
		Env:  []string{helperEnv + "=" + strings.Join(args, " ")},
	})
}
