package ipvs

import "testing"

func TestScope(t *testing.T) {
	s, err := ParseScope("owned", "192.0.2.1, 198.51.100.0/24 # a comment, 9\n\n2001:db8::/64\tfwmark:7,\n")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"-A -t 192.0.2.1:80": true, "-A -u 192.0.2.1:53": true, "-A -t 192.0.2.2:80": false, "-A -t 198.51.100.255:1": true,
		"-A -t [2001:db8::9]:1": true, "-A -t [2001:db8:1::9]:1": false, "-A -f 7": true, "-A -f 7 -6": true, "-A -f 8": false,
	} {
		r := mustParse(t, text)
		if got := s.Owns(r.Services[0].ServiceKey); got != want {
			t.Errorf("%s: %v", text, got)
		}
		if got := len(s.Within(r).Services) == 1; got != want {
			t.Errorf("%s: within: %v", text, got)
		}
		if got := s.Check("f", r) == nil; got != want {
			t.Errorf("%s: check: %v", text, got)
		}
	}
	if s.Empty() {
		t.Error("it is not empty")
	}
	none, err := ParseScope("owned", " # nothing\n")
	if err != nil || !none.Empty() || none.Owns(mustParse(t, web).Services[0].ServiceKey) {
		t.Errorf("nothing owned: %v, %v", none, err)
	}
	var all Scope
	if all.Empty() || !all.Owns(ServiceKey{}) {
		t.Error("the zero value is everything")
	}
}

func TestScopeFaults(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1,foo":        `owned:1:11: "foo" is no VIP: write addresses, prefixes, or fwmark:N`,
		"\n 192.0.2.1/24":      `owned:2:2: "192.0.2.1/24" has bits behind the prefix: write 192.0.2.0/24, or the address alone`,
		"192.0.2.0/33":         `owned:1:1: "192.0.2.0/33" is no prefix like 192.0.2.0/24`,
		"fwmark:0":             `owned:1:1: "fwmark:0": a firewall mark is a number from 1 to 4294967295`,
		"fe80::1%eth0":         `owned:1:1: "fe80::1%eth0" is no VIP: write addresses, prefixes, or fwmark:N`,
		"::ffff:192.0.2.1":     `owned:1:1: "::ffff:192.0.2.1" is no VIP: write addresses, prefixes, or fwmark:N`,
		"192.0.2.1:80":         `owned:1:1: "192.0.2.1:80" is no VIP: write addresses, prefixes, or fwmark:N`,
		"a b":                  `owned:1:1: "a" is no VIP: write addresses, prefixes, or fwmark:N`,
		"::ffff:192.0.2.0/120": `owned:1:1: "::ffff:192.0.2.0/120" is no prefix like 192.0.2.0/24`,
	} {
		_, err := ParseScope("owned", text)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		if got := err.(interface{ WrappedErrors() []error }).WrappedErrors()[0].Error(); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestScopeCheck(t *testing.T) {
	s, err := ParseScope("owned", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	err = s.Check("f", mustParse(t, "-A -t 192.0.2.1:80\n\n -A -u 192.0.2.2:80\n-A -f 3\n"))
	want := []string{
		"f:3:2: service 192.0.2.2:80/UDP is not among the owned VIPs: add its address to them, or take it out of the file",
		"f:4:1: service fwmark 3 is not among the owned VIPs: add fwmark:3 to them, or take it out of the file",
	}
	var got []string
	if list, ok := err.(interface{ WrappedErrors() []error }); ok {
		for _, e := range list.WrappedErrors() {
			got = append(got, e.Error())
		}
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v", err)
	}
}
