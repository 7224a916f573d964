// Package ipvs keeps the kernel's IPVS table as a rules file says, without a
// gap: it changes what differs, over netlink, and touches nothing else.
// "ipvsadm -C; ipvsadm -R" empties the table first, which costs new
// connections and every long-lived one.
//
// The data goes one way:
//
//	rules file  -> Parse ─┐
//	                      ├─ Diff -> []Op -> Kernel.Do, until Diff finds nothing
//	kernel      -> Read  ─┘
//
// Where things are:
//
//	rules.go                   Rules, Service, Server: what a file and the kernel have in common
//	scheduler.go               schedulers and their flags
//	parse.go parse_service.go parse_server.go value.go
//	                           the syntax of ipvsadm-save(8), and every fault in it with its place
//	line.go option.go fault.go a line's words and options, ipvsadm's options, a fault
//	print.go                   the same syntax, in one canonical form
//	diff.go                    from one set of rules to another, in an order that serves all the while
//	scope.go                   what of the table is ours, where it is not all of it
//	kernel.go engine.go        the kernel over netlink
//	sync.go drain.go lock.go   apply, read again, repeat; one at a time
//
// Nothing here is safe for concurrent use but what says so. No goroutines are
// started. Only Sync waits, for the lock and for servers that drain, and gives
// up when its context ends.
package ipvs
