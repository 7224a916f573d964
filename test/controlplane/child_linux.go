package main

import "syscall"

// child is how up starts a process: a Ctrl-C is for up alone, and it ends with up, however that ends.
func child() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
