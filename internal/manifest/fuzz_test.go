package manifest

import (
	"bytes"
	"testing"
)

// FuzzDecode: no input panics, and what is accepted can be written and read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "---", "--- ", "...", "%", "{", "}", "[", "{}", "[]", "{}{}", "{}\n---\n[]", "null", "\"", "{\"", "{\"\\", "- ", "items:", "\nitems:\n-", "items:\n- \n",
		cmA, cmA + cmB, "---\n" + cmA + "\n---\n" + cmB,
		configMap("a", "x"), configMap("a", "x") + "---\n" + configMap("b", "\x00"),
		webEndpoints,
		"apiVersion: v1\nkind: List\nitems:\n- " + indent(configMap("a", "x")) + "kind2: x\n",
		`{"apiVersion":"v1","kind":"List","items":[` + cmA + `,null,7,"x",[],` + cmB + `]}`,
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":"x"}]}}]}`,
		`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"a"},"addressType":"IPv6","ports":[null],"endpoints":[{"addresses":["2001:db8::1"]},null]}`,
		`{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"a"},"subsets":[{"addresses":[{"ip":""}],"notReadyAddresses":[null],"ports":[null]}]}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"ports":[{}]}]},"status":{"podIPs":[{}]}}`,
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"capacity":{"cpu":"1e999"},"conditions":[{"lastHeartbeatTime":"x"}]}}`,
		"a: &a [*a]", "a: &a {x: *a}", "&a : 1", "? [x]: 1", "<<: 1", "!!binary x", "a: !!float x", "1: {2: 3}", "\xff", "\ufeff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := Decode("fuzz", data)
		if err != nil {
			if objects != nil {
				t.Fatal("objects beside an error")
			}
			return
		}
		var b bytes.Buffer
		if err := Write(&b, objects); err != nil {
			t.Fatal(err)
		}
		back, err := Decode("written", b.Bytes())
		if err != nil || len(back) != len(objects) {
			t.Fatalf("%d objects became %d, %v\n%s", len(objects), len(back), err, &b)
		}
	})
}
