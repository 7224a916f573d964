package ipvs

import (
	"math/rand/v2"
	"testing"
)

// FuzzParse: no text makes Parse panic; what it takes is printed so that it
// means the same, and differs from itself in nothing.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "# x\n", "-A -t 192.0.2.1:80 -s mh -b flag-1,mh-port\n-a -t 192.0.2.1:80 -r [2001:db8::1]:80 -i --tun-type gue --tun-port 1 --tun-remcsum -w 5 -x 3 -y=2",
		"--add-service --fwmark-service=5 --ipv6 -p -M 64 -o", "-At192.0.2.1:0 -p5 -M0.0.0.0\r\n-a -t 192.0.2.1 -r 198.51.100.1:0 -m", "-A -u 1.1.1.1:1 --pe sip", "-A -t [::]:1 -[",
		"-A --sctp-service 2001:db8::2 -p 2678400\nipvsadm -a --sctp-service 2001:db8::2 -r 2001:db8::3",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("f", text)
		if err != nil {
			return
		}
		again, err := Parse("f", p.String())
		if err != nil {
			t.Fatalf("what is printed is not taken: %v\n%s", err, p)
		}
		if !again.Equal(&p.Rules) || again.String() != p.String() {
			t.Fatalf("what is printed means something else:\n%s\nand\n%s", p, again)
		}
		if ops := Diff(&p.Rules, &again.Rules); len(ops) > 0 {
			t.Fatalf("differs from itself:\n%s", Print(ops))
		}
	})
}

// FuzzDiff: the difference of two sets makes one into the other, in an order
// that the kernel takes, and keeps each service served.
func FuzzDiff(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(3), uint64(3))
	f.Fuzz(func(t *testing.T, seedA, seedB uint64) {
		a := mustParse(t, randomText(rand.New(rand.NewPCG(seedA, 1))))
		b := mustParse(t, randomText(rand.New(rand.NewPCG(seedB, 1))))
		checkDiff(t, a, b)
	})
}

func TestDiffOfRandomSets(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, b := mustParse(t, randomText(r)), mustParse(t, randomText(r))
		checkDiff(t, a, b)
		checkDiff(t, a, &Rules{})
		checkDiff(t, &Rules{}, b)
	}
}

func checkDiff(t *testing.T, a, b *Rules) {
	t.Helper()
	if ops := Diff(a, a); len(ops) > 0 {
		t.Fatalf("a set differs from itself:\n%s", Print(ops))
	}
	ops := Diff(a, b)
	if got := applied(t, ops, a); !got.Equal(b) || got.String() != b.String() {
		t.Fatalf("from\n%s\nthrough\n%s\ncomes\n%s\nnot\n%s", a, Print(ops), got, b)
	}
	for i := 1; i < len(ops); i++ {
		if isDeletion(ops[i-1].Verb) && !isDeletion(ops[i].Verb) {
			t.Fatalf("%s comes before %s", &ops[i-1], &ops[i])
		}
	}
	seen := map[serverID]Verb{}
	for _, op := range ops {
		id := serverID{ServiceKey: op.Service.ServiceKey}
		if op.Server != nil {
			id.ServerKey = op.Server.ServerKey
		}
		if verb, twice := seen[id]; twice {
			t.Fatalf("%v is touched twice, by %v and %v", id, verb, op.Verb)
		}
		seen[id] = op.Verb
	}
	// A service that has a server with a weight before and after has one all the while.
	for _, s := range b.Services {
		before, ok := find(a, s.ServiceKey)
		if !ok || !serves(before) || !serves(&s) {
			continue
		}
		for n := range ops {
			if ops[n].Service.ServiceKey != s.ServiceKey {
				continue
			}
			now, _ := find(applied(t, ops[:n+1], a), s.ServiceKey)
			if !serves(now) {
				t.Fatalf("service %s has nobody to serve it after %s, of\n%s", s.ServiceKey, &ops[n], Print(ops))
			}
		}
	}
}

func isDeletion(v Verb) bool { return v == DeleteServer || v == DeleteService }

func find(r *Rules, key ServiceKey) (*Service, bool) {
	for i := range r.Services {
		if r.Services[i].ServiceKey == key {
			return &r.Services[i], true
		}
	}
	return nil, false
}

func serves(s *Service) bool {
	for i := range s.Servers {
		if s.Servers[i].Weight > 0 {
			return true
		}
	}
	return false
}
