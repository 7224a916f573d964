package ipvs

import (
	"slices"
	"strings"
)

// schedulers are those of Linux 6.1, each a module ip_vs_NAME; with none, no
// new connection is taken.
var schedulers = []string{"dh", "fo", "lblc", "lblcr", "lc", "mh", "none", "nq", "ovf", "rr", "sed", "sh", "twos", "wlc", "wrr"}

// defaultScheduler is ipvsadm's for a service that names none.
const defaultScheduler = "wlc"

// Flags are the flags of a service, with the kernel's values
// (IP_VS_SVC_F_PERSISTENT and so on in linux/ip_vs.h). The kernel has others of its
// own, such as HASHED, 2, which are never in them.
type Flags uint32

// What the three flags of a scheduler mean depends on it.
const (
	Persistent Flags = 0x01
	OnePacket  Flags = 0x04
	Scheduler1 Flags = 0x08
	Scheduler2 Flags = 0x10
	Scheduler3 Flags = 0x20

	knownFlags = Persistent | OnePacket | Scheduler1 | Scheduler2 | Scheduler3
)

// flagNumbers are the names that a flag has with every scheduler.
var flagNumbers = []struct {
	name string
	flag Flags
}{{"flag-1", Scheduler1}, {"flag-2", Scheduler2}, {"flag-3", Scheduler3}}

// flagNames are the names that a flag has with one scheduler.
var flagNames = []struct {
	scheduler, name string
	flag            Flags
}{
	{"sh", "sh-fallback", Scheduler1}, {"sh", "sh-port", Scheduler2},
	{"mh", "mh-fallback", Scheduler1}, {"mh", "mh-port", Scheduler2},
}

// flagByName finds a flag. of is the scheduler that the name belongs to, and
// empty for all.
func flagByName(name string) (flag Flags, of string, ok bool) {
	for _, f := range flagNumbers {
		if f.name == name {
			return f.flag, "", true
		}
	}
	for _, f := range flagNames {
		if f.name == name {
			return f.flag, f.scheduler, true
		}
	}
	return 0, "", false
}

// schedulerFlagNames lists the flags as ipvsadm-save does: by name where the
// scheduler has one, else by number.
func schedulerFlagNames(scheduler string, flags Flags) string {
	var names []string
	for _, n := range flagNumbers {
		if flags&n.flag == 0 {
			continue
		}
		name := n.name
		for _, f := range flagNames {
			if f.scheduler == scheduler && f.flag == n.flag {
				name = f.name
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

func knownScheduler(name string) bool { return slices.Contains(schedulers, name) }
