package guest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Of linux/genetlink.h and linux/ip_vs.h.
const (
	ctrlID, ctrlGetFamily, ctrlAttrID, ctrlAttrName = 16, 3, 1, 2

	cmdGetService, cmdGetDest = 4, 8
	attrService, attrDest     = 1, 2

	nested = 0x8000
)

// What statistics and connections change by themselves is left out.
var (
	serviceNames = map[uint16]string{1: "af", 2: "protocol", 3: "addr", 4: "port", 5: "fwmark", 6: "sched", 7: "flags", 8: "timeout", 9: "netmask", 11: "pe", 10: "", 12: ""}
	serverNames  = map[uint16]string{1: "addr", 2: "port", 3: "forward", 4: "weight", 5: "upper", 6: "lower", 11: "af", 13: "tun-type", 14: "tun-port", 15: "tun-flags",
		7: "", 8: "", 9: "", 10: "", 12: ""}
)

// rawDump is the table as the bytes that the kernel gives, one sorted line for
// each service and server. It shares no code with lb-render or ipvsadm.
func rawDump(t *testing.T) []string {
	t.Helper()
	g := dialIPVS(t)
	defer g.close()
	var lines []string
	for _, service := range g.dump(cmdGetService, nil) {
		name := render(service[attrService], serviceNames)
		lines = append(lines, name)
		key := attrs(service[attrService])
		maps.DeleteFunc(key, func(k uint16, _ []byte) bool { return k > 5 })
		for _, dest := range g.dump(cmdGetDest, pack(attrService|nested, packAll(key))) {
			lines = append(lines, name+" -> "+render(dest[attrDest], serverNames))
		}
	}
	slices.Sort(lines)
	return lines
}

func render(data []byte, names map[uint16]string) string {
	all := attrs(data)
	var fields []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		name, known := names[k]
		if !known {
			name = fmt.Sprint("attribute-", k)
		}
		if name != "" {
			fields = append(fields, fmt.Sprintf("%s=%x", name, all[k]))
		}
	}
	return strings.Join(fields, " ")
}

// genl is a generic netlink socket to ip_vs.
type genl struct {
	t      *testing.T
	fd     int
	family uint16
	seq    uint32
}

func dialIPVS(t *testing.T) *genl {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	g := &genl{t: t, fd: fd, family: ctrlID}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: int64(soon / time.Second)}); err != nil {
		t.Fatal(err)
	}
	answers := g.request(ctrlGetFamily, syscall.NLM_F_ACK, pack(ctrlAttrName, []byte("IPVS\x00")))
	if len(answers) != 1 || len(answers[0][ctrlAttrID]) != 2 {
		t.Fatalf("no netlink family IPVS: %v", answers)
	}
	g.family = binary.NativeEndian.Uint16(answers[0][ctrlAttrID])
	return g
}

func (g *genl) close() { syscall.Close(g.fd) }

func (g *genl) dump(command byte, payload []byte) []map[uint16][]byte {
	g.t.Helper()
	return g.request(command, syscall.NLM_F_DUMP, payload)
}

// request sends one command, and returns the attributes of each answer.
func (g *genl) request(command byte, flags uint16, payload []byte) []map[uint16][]byte {
	g.t.Helper()
	g.seq++
	message := make([]byte, syscall.NLMSG_HDRLEN+4, syscall.NLMSG_HDRLEN+4+len(payload))
	message = append(message, payload...)
	binary.NativeEndian.PutUint32(message[0:], uint32(len(message)))
	binary.NativeEndian.PutUint16(message[4:], g.family)
	binary.NativeEndian.PutUint16(message[6:], syscall.NLM_F_REQUEST|flags)
	binary.NativeEndian.PutUint32(message[8:], g.seq)
	message[syscall.NLMSG_HDRLEN], message[syscall.NLMSG_HDRLEN+1] = command, 1
	if err := syscall.Sendto(g.fd, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		g.t.Fatal(err)
	}
	var answers []map[uint16][]byte
	buf := make([]byte, 1<<16)
	for {
		n, _, err := syscall.Recvfrom(g.fd, buf, 0)
		if err != nil {
			g.t.Fatalf("waiting for the kernel's answer: %v", err)
		}
		messages, err := syscall.ParseNetlinkMessage(slices.Clone(buf[:n]))
		if err != nil {
			g.t.Fatal(err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case syscall.NLMSG_DONE:
				return answers
			case syscall.NLMSG_ERROR:
				if errno := int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
					g.t.Fatalf("netlink command %d: %v", command, syscall.Errno(-errno))
				}
				return answers
			default:
				answers = append(answers, attrs(m.Data[4:]))
			}
		}
	}
}

// attrs takes a list of netlink attributes apart.
func attrs(data []byte) map[uint16][]byte {
	all := map[uint16][]byte{}
	for len(data) >= 4 {
		n := int(binary.NativeEndian.Uint16(data))
		if n < 4 || n > len(data) {
			break
		}
		all[binary.NativeEndian.Uint16(data[2:])&^nested] = data[4:n]
		data = data[min((n+3)&^3, len(data)):]
	}
	return all
}

func packAll(all map[uint16][]byte) []byte {
	var data []byte
	for _, k := range slices.Sorted(maps.Keys(all)) {
		data = append(data, pack(k, all[k])...)
	}
	return data
}

func pack(kind uint16, value []byte) []byte {
	data := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	data = append(binary.NativeEndian.AppendUint16(data, kind), value...)
	return append(data, make([]byte, -len(value)&3)...)
}
