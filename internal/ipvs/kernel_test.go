package ipvs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/cloudflare/ipvs"
	"golang.org/x/sys/unix"
)

// What goes to the kernel comes back as it was. The rest is test/vm's: it needs
// a kernel.
func TestKernelTypes(t *testing.T) {
	for seed := range uint64(200) {
		rules := mustParse(t, randomText(rand.New(rand.NewPCG(seed, 3))))
		for i := range rules.Services {
			s := &rules.Services[i]
			k := toKernelService(s)
			k.Flags |= ipvs.ServiceHashed // as the kernel does
			if back := fromKernelService(&k); !back.same(s) {
				t.Errorf("%s became %s", s.options(), back.options())
			}
			for j := range s.Servers {
				k := ipvs.DestinationExtended{Destination: toKernelServer(&s.Servers[j]), ActiveConnections: 1, InactiveConnections: 2, PersistentConnections: 4}
				if back := fromKernelServer(&k); !back.same(&s.Servers[j]) || back.connections != 7 {
					t.Errorf("%s became %s", s.Servers[j].options(), back.options())
				}
			}
		}
	}
}

func TestUnavailable(t *testing.T) {
	for err, want := range map[error]string{
		unix.EPERM:        "no rights to use IPVS: this needs CAP_NET_ADMIN (run it as root; in a systemd unit, see lb-render.service.d/ipvs.conf)",
		fs.ErrNotExist:    "the kernel has no IPVS: load it with \"modprobe ip_vs\" (and at each boot by a line ip_vs in a file of /etc/modules-load.d)",
		unix.EAFNOSUPPORT: "cannot use netlink: a systemd unit must allow AF_NETLINK in RestrictAddressFamilies",
	} {
		var u *UnavailableError
		if got := unavailable(err); !errors.As(got, &u) || got.Error() != want {
			t.Errorf("%v: got %v", err, got)
		}
	}
	if err := unavailable(unix.ENOMEM); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("got %v", err)
	}
}

// TestReadTwice: a service or server that a reading has twice is there once.
func TestReadTwice(t *testing.T) {
	want := mustParse(t, web+"-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2\n-A -t 192.0.2.2:80\n")
	first, second := want.Services[0], want.Services[1]
	first.Servers = []Server{first.Servers[1], first.Servers[0], first.Servers[1]}
	have := &Rules{Services: []Service{second, first, second, first}}
	have.normalize()
	if !have.Equal(want) {
		t.Errorf("got\n%s", have)
	}
	if ops := Diff(have, want); len(ops) > 0 {
		t.Errorf("would do\n%s", Print(ops))
	}
}
