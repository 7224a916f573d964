package ipvs

import "fmt"

// option is an option of ipvsadm(8).
type option struct {
	id    optionID
	short byte   // 0 for none
	long  string // without the dashes
	value valueKind
	wants string // what the value is, for who left it out
	on    lineKind
}

// String is the option as one writes it.
func (o *option) String() string {
	if o.short != 0 {
		return "-" + string(o.short)
	}
	return "--" + o.long
}

type valueKind uint8

const (
	noValue valueKind = iota
	needsValue
	optionalValue
)

// lineKind is a kind of line, or a set of kinds.
type lineKind uint8

const (
	serviceLine lineKind = 1 << iota
	serverLine
	noLine lineKind = 0 // of a command that a rules file does not have
)

func (k lineKind) String() string {
	switch k {
	case serviceLine:
		return "-A"
	case serverLine:
		return "-a"
	}
	return "another command"
}

type optionID uint8

const (
	optOther optionID = iota // of other commands
	optAddService
	optAddServer
	optTCP
	optUDP
	optSCTP
	optFWMark
	optScheduler
	optPersistent
	optNetmask
	optServer
	optMasquerade
	optTunneling
	optDirect
	optWeight
	optUpper
	optLower
	optIPv6
	optOnePacket
	optEngine
	optFlags
	optTunnelType
	optTunnelPort
	optTunnelNoChecksum
	optTunnelChecksum
	optTunnelRemoteChecksum
	optionIDs // how many there are
)

// options are all of ipvsadm 1.31. Those of other commands are known, so that
// who mixes them in is told so.
var options = []option{
	{optAddService, 'A', "add-service", noValue, "", serviceLine},
	{optAddServer, 'a', "add-server", noValue, "", serverLine},
	{optTCP, 't', "tcp-service", needsValue, "ADDRESS:PORT", serviceLine | serverLine},
	{optUDP, 'u', "udp-service", needsValue, "ADDRESS:PORT", serviceLine | serverLine},
	{optSCTP, 0, "sctp-service", needsValue, "ADDRESS:PORT", serviceLine | serverLine},
	{optFWMark, 'f', "fwmark-service", needsValue, "a firewall mark, from 1", serviceLine | serverLine},
	{optIPv6, '6', "ipv6", noValue, "", serviceLine | serverLine},
	{optScheduler, 's', "scheduler", needsValue, "a scheduler such as wrr", serviceLine},
	{optFlags, 'b', "sched-flags", needsValue, "flags such as flag-1,flag-2", serviceLine},
	{optPersistent, 'p', "persistent", optionalValue, "seconds", serviceLine},
	{optNetmask, 'M', "netmask", needsValue, "255.255.255.0, or the length of a prefix for IPv6", serviceLine},
	{optOnePacket, 'o', "ops", noValue, "", serviceLine},
	{optEngine, 0, "pe", needsValue, "a persistence engine", serviceLine},
	{optServer, 'r', "real-server", needsValue, "ADDRESS:PORT", serverLine},
	{optDirect, 'g', "gatewaying", noValue, "", serverLine},
	{optTunneling, 'i', "ipip", noValue, "", serverLine},
	{optMasquerade, 'm', "masquerading", noValue, "", serverLine},
	{optWeight, 'w', "weight", needsValue, "a number", serverLine},
	{optUpper, 'x', "u-threshold", needsValue, "a number of connections", serverLine},
	{optLower, 'y', "l-threshold", needsValue, "a number of connections", serverLine},
	{optTunnelType, 0, "tun-type", needsValue, "ipip, gue or gre", serverLine},
	{optTunnelPort, 0, "tun-port", needsValue, "a UDP port", serverLine},
	{optTunnelNoChecksum, 0, "tun-nocsum", noValue, "", serverLine},
	{optTunnelChecksum, 0, "tun-csum", noValue, "", serverLine},
	{optTunnelRemoteChecksum, 0, "tun-remcsum", noValue, "", serverLine},

	{optOther, 'E', "edit-service", noValue, "", noLine},
	{optOther, 'D', "delete-service", noValue, "", noLine},
	{optOther, 'e', "edit-server", noValue, "", noLine},
	{optOther, 'd', "delete-server", noValue, "", noLine},
	{optOther, 'C', "clear", noValue, "", noLine},
	{optOther, 'L', "list", noValue, "", noLine},
	{optOther, 'l', "list", noValue, "", noLine},
	{optOther, 'Z', "zero", noValue, "", noLine},
	{optOther, 'R', "restore", noValue, "", noLine},
	{optOther, 'S', "save", noValue, "", noLine},
	{optOther, 'h', "help", noValue, "", noLine},
	{optOther, 'v', "version", noValue, "", noLine},
	{optOther, 'n', "numeric", noValue, "", noLine},
	{optOther, 'c', "connection", noValue, "", noLine},
	{optOther, 'X', "exact", noValue, "", noLine},
	{optOther, 0, "set", noValue, "", noLine},
	{optOther, 0, "start-daemon", needsValue, "master or backup", noLine},
	{optOther, 0, "stop-daemon", needsValue, "master or backup", noLine},
	{optOther, 0, "mcast-interface", needsValue, "an interface", noLine},
	{optOther, 0, "mcast-group", needsValue, "an address", noLine},
	{optOther, 0, "mcast-port", needsValue, "a port", noLine},
	{optOther, 0, "mcast-ttl", needsValue, "a number", noLine},
	{optOther, 0, "syncid", needsValue, "a number", noLine},
	{optOther, 0, "sync-maxlen", needsValue, "a number", noLine},
	{optOther, 0, "timeout", noValue, "", noLine},
	{optOther, 0, "daemon", noValue, "", noLine},
	{optOther, 0, "stats", noValue, "", noLine},
	{optOther, 0, "rate", noValue, "", noLine},
	{optOther, 0, "thresholds", noValue, "", noLine},
	{optOther, 0, "persistent-conn", noValue, "", noLine},
	{optOther, 0, "tun-info", noValue, "", noLine},
	{optOther, 0, "nosort", noValue, "", noLine},
	{optOther, 0, "sort", noValue, "", noLine},
}

func longOption(name string) *option {
	for i := range options {
		if options[i].long == name {
			return &options[i]
		}
	}
	return nil
}

func shortOption(c byte) *option {
	for i := range options {
		if options[i].short == c && c != 0 {
			return &options[i]
		}
	}
	return nil
}

// quote shows foreign text in a message: on one line, and not all of it.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
