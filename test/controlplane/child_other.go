//go:build !linux

package main

import "syscall"

// child is how up starts a process: a Ctrl-C is for up alone.
func child() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
