package template

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lb-render/lb-render/internal/types"
)

// large makes n listeners of 10 endpoints, 20 on each VIP.
func large(n int) *types.ClusterConfig {
	var all []*types.Listener
	for i := range n {
		vip := fmt.Sprintf("198.18.%d.%d", i/20/250, i/20%250+1)
		all = append(all, listener(vip, 80+i%20, func(l *types.Listener) {
			l.Namespace, l.Service = fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("service-%d", i)
			for e := range 10 {
				l.Endpoints = append(l.Endpoints, endpoint(fmt.Sprintf("service-%d-7d9f8b6c5d-%05d", i, e), fmt.Sprintf("10.%d.%d.%d", i/2500, i/10%250, i%10*10+e), 8080))
			}
		}))
	}
	return cluster(all...)
}

// changed returns cc with one other endpoint in the i-th listener, as the watcher would publish it.
func changed(cc *types.ClusterConfig, i, n int) *types.ClusterConfig {
	next := *cc
	l := *cc.Listeners[i]
	l.Endpoints = append([]*types.Endpoint(nil), l.Endpoints...)
	e := *l.Endpoints[0]
	e.IP = fmt.Sprintf("10.200.%d.%d", n/250%250, n%250)
	l.Endpoints[0] = &e
	next.Listeners = append([]*types.Listener(nil), cc.Listeners...)
	next.Listeners[i] = &l
	next.VIPs = append([]*types.VIP(nil), cc.VIPs...)
	for k, v := range next.VIPs {
		if v.Address == l.VIP {
			w := *v
			w.Listeners = append([]*types.Listener(nil), v.Listeners...)
			for j := range w.Listeners {
				if w.Listeners[j] == cc.Listeners[i] {
					w.Listeners[j] = &l
				}
			}
			next.VIPs[k] = &w
		}
	}
	return &next
}

func BenchmarkIncremental(b *testing.B) {
	path, err := filepath.Abs(filepath.Join(shipped, "haproxy.cfg.tmpl"))
	if err != nil {
		b.Fatal(err)
	}
	load := func(b *testing.B) *Template {
		t, err := Load(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	for _, n := range []int{10_000, 1_000, 100} {
		cc := large(n)
		b.Run(fmt.Sprintf("plain/listeners=%d", n), func(b *testing.B) {
			t := load(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.execute(t.set, root{ClusterConfig: cc}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("full/listeners=%d", n), func(b *testing.B) {
			t := load(b)
			b.ReportAllocs()
			for b.Loop() {
				t.memory.forget()
				if _, err := t.Render(cc, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("one/listeners=%d", n), func(b *testing.B) {
			t := load(b)
			cc := cc
			b.ReportAllocs()
			i := 0
			for range 2 {
				cc = changed(cc, 0, 1000)
				if _, err := t.Render(cc, nil); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				b.StopTimer()
				cc = changed(cc, (i*7919)%n, i)
				i++
				b.StartTimer()
				if _, err := t.Render(cc, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
